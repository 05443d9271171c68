"""Writes golden.json: what rapidocr_onnxruntime 1.4.4 (PyPI) reads in pages that TestGolden draws.

    go test ./rag/ocr -run TestGolden -draw DIR
    pip install rapidocr-onnxruntime==1.4.4
    python testdata/reference.py DIR > testdata/golden.json
"""

import glob
import json
import os
import sys

from rapidocr_onnxruntime import RapidOCR

read = RapidOCR()
pages = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.png"))):
    lines, _ = read(path)
    pages[os.path.basename(path)] = [
        {"box": [round(v) for corner in box for v in corner], "text": text, "confidence": round(score, 3)}
        for box, text, score in lines
    ]
json.dump(pages, sys.stdout, ensure_ascii=False, indent=0)
