//! Queries of a CSV or JSON document.

use serde_json::{Value, json};

use super::super::chance::Chance;
use super::super::task::{Agents, Expected, Outcome, Task, Turns};
use super::result_schema;

/// Cities in the tables.
const CITIES: [&str; 8] = ["Oslo", "Rome", "Lima", "Cairo", "Delhi", "Quito", "Tunis", "Perth"];

/// The table of orders, by city.
struct Orders {
    rows: Vec<(&'static str, u32)>,
}

impl Orders {
    /// Returns a table of five cities, with different numbers of units.
    fn new(chance: &mut Chance) -> Self {
        let mut rows: Vec<(&'static str, u32)> = Vec::new();
        for city in chance.some(&CITIES, 5) {
            let units = loop {
                let units = chance.between(100, 900);
                if rows.iter().all(|row| row.1 != units) {
                    break units;
                }
            };
            rows.push((city, units));
        }
        Self { rows }
    }

    /// Returns a task about this table.
    fn task(&self, request: String, schema: &[(&str, &str)], values: Vec<Value>, result: Value) -> Task {
        let rows: Vec<String> = self.rows.iter().map(|(city, units)| format!("{city},{units}\n")).collect();
        Task {
            request,
            documents: vec![("orders.csv", format!("city,units\n{}", rows.concat()))],
            agents: Agents::Tables,
            schema: result_schema(schema),
            expected: vec![Expected::Queries { table: "orders", values }],
            outcome: Outcome::Result(result),
        }
    }
}

/// Asks for the units of one city.
pub(super) fn cell(chance: &mut Chance) -> Task {
    let orders = Orders::new(chance);
    let (city, units) = orders.rows[2];
    let request = format!(
        "How many units has {city} in the table orders (orders.csv)? Look it up with query_data, then call handoff with {{\"result\": {{\"answer\": NUMBER}}}}."
    );
    orders.task(request, &[("answer", "number")], vec![json!(units)], json!({ "answer": units }))
}

/// Asks for the sum of all units.
pub(super) fn sum(chance: &mut Chance) -> Task {
    let orders = Orders::new(chance);
    let sum: u32 = orders.rows.iter().map(|row| row.1).sum();
    let request = "What is the sum of the column units in the table orders (orders.csv)? Use query_data, then call handoff with {\"result\": {\"answer\": NUMBER}}.";
    orders.task(request.to_owned(), &[("answer", "number")], vec![json!(sum)], json!({ "answer": sum }))
}

/// Asks for the row with the most units.
pub(super) fn maximum(chance: &mut Chance) -> Task {
    let orders = Orders::new(chance);
    let (city, units) = *orders.rows.iter().max_by_key(|row| row.1).expect("the table has rows");
    let request = "Which city in the table orders (orders.csv) has the most units? Use query_data and select its city and units. Then call handoff with \
        {\"result\": {\"city\": TEXT, \"units\": NUMBER}}.";
    let values = vec![json!(city), json!(units)];
    orders.task(request.to_owned(), &[("city", "string"), ("units", "number")], values, json!({"city": city, "units": units}))
}

/// Asks for the units of one city, times a price.
pub(super) fn arithmetic(chance: &mut Chance) -> Task {
    let orders = Orders::new(chance);
    let (city, units) = orders.rows[1];
    let price = chance.between(3, 29);
    let product = units * price;
    let request = format!(
        "Look up the units of {city} in the table orders (orders.csv) with query_data. Then multiply them by the price {price} with calculator. Call handoff with \
         {{\"result\": {{\"answer\": NUMBER}}}} with the product."
    );
    let mut task = orders.task(request, &[("answer", "number")], vec![json!(units)], json!({ "answer": product }));
    task.expected.push(Expected::Computes {
        operands: vec![f64::from(units), f64::from(price)],
        constants: &[],
        results: vec![vec![f64::from(product)]],
        turns: Turns::Any,
    });
    task
}

/// Asks for the number of open tickets in a JSON document.
pub(super) fn count(chance: &mut Chance) -> Task {
    let states = ["open", "closed", "waiting"];
    let mut tickets: Vec<(u32, &str)> = (1..=9).map(|id| (id, chance.pick(&states))).collect();
    // The count is neither zero nor that of all tickets.
    (tickets[3].1, tickets[7].1) = ("open", "closed");
    let open = tickets.iter().filter(|ticket| ticket.1 == "open").count();
    let lines: Vec<String> = tickets.iter().map(|(id, state)| format!(r#"{{"id": {id}, "state": "{state}"}}"#)).collect();
    let request = "How many tickets in the table tickets (tickets.json) have the state open? Count them with query_data, then call handoff with \
        {\"result\": {\"answer\": NUMBER}}.";
    Task {
        request: request.to_owned(),
        documents: vec![("tickets.json", format!("[{}]\n", lines.join(", ")))],
        agents: Agents::Tables,
        schema: result_schema(&[("answer", "number")]),
        expected: vec![Expected::Queries { table: "tickets", values: vec![json!(open)] }],
        outcome: Outcome::Result(json!({ "answer": open })),
    }
}
