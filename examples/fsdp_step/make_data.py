#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Makes digits.txt from the data set that comes with scikit-learn (pip install scikit-learn).

    python3 make_data.py [file]

A line for each image: the digit, and 64 pixels of 17 shades, 0 to 9 and a to g, row by row from the top.
"""

import pathlib
import sys

from sklearn.datasets import load_digits

HEAD = """\
# 1797 handwritten digits, 8 by 8 pixels of 17 shades (0 to 9, a to g), each behind the digit that it shows.
# Made by make_data.py from the copy in scikit-learn, which is the test set of:
# E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, 1998, UCI Machine Learning Repository,
# https://doi.org/10.24432/C50P49, licence: Creative Commons Attribution 4.0, https://creativecommons.org/licenses/by/4.0
# What was changed: shades are written as one character each.
"""
SHADES = "0123456789abcdefg"


def main():
    file = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "digits.txt")
    digits = load_digits()
    lines = (
        f"{label} {''.join(SHADES[int(pixel)] for pixel in image)}\n"
        for image, label in zip(digits.data, digits.target)
    )
    file.write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main()
