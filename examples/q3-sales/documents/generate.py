#!/usr/bin/env python3
"""Writes sales_raw.csv: about 2,000 synthetic orders of one year. Nobody ever placed them.

The same seed gives the same file on every machine: python3 generate.py
"""

import csv
import datetime
import pathlib
import random

SEED = 5
ORDERS_PER_DAY = {"Q1": 5.1, "Q2": 5.2, "Q3": 5.8, "Q4": 5.6}
REGIONS = {"North": 0.31, "South": 0.27, "East": 0.18, "West": 0.24}
# How much better or worse a region sells in a quarter than in the others.
SEASONS = {("South", "Q3"): 1.25, ("West", "Q3"): 0.85, ("North", "Q4"): 1.15}
PRODUCTS = {"Desk": (389.00, 0.22), "Chair": (174.50, 0.38), "Lamp": (59.90, 0.28), "Shelf": (129.00, 0.12)}


def quarter_of(day: datetime.date) -> str:
    return f"Q{(day.month + 2) // 3}"


def orders(chance: random.Random):
    number = 0
    day = datetime.date(2024, 1, 1)
    while day.year == 2024:
        quarter = quarter_of(day)
        for _ in range(int(ORDERS_PER_DAY[quarter]) + (chance.random() < ORDERS_PER_DAY[quarter] % 1)):
            number += 1
            weights = [share * SEASONS.get((region, quarter), 1.0) for region, share in REGIONS.items()]
            region = chance.choices(list(REGIONS), weights)[0]
            product = chance.choices(list(PRODUCTS), [share for _, share in PRODUCTS.values()])[0]
            units = chance.choice([1, 1, 1, 2, 2, 3, 4, 6])
            price = PRODUCTS[product][0]
            yield [f"SO-{number:05}", day.isoformat(), quarter, region, product, units, f"{price:.2f}", f"{units * price:.2f}"]
        day += datetime.timedelta(days=1)


def main() -> None:
    target = pathlib.Path(__file__).with_name("sales_raw.csv")
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["order_id", "date", "quarter", "region", "product", "units", "unit_price", "revenue"])
        writer.writerows(orders(random.Random(SEED)))


if __name__ == "__main__":
    main()
