"""Writes golden.json: what rapidocr 3.10.0 (PyPI) reads in pages that TestGolden draws.

    go test ./rag/ocr -run TestGolden -draw DIR
    pip install rapidocr==3.10.0 onnxruntime
    python testdata/reference.py DIR > testdata/golden.json
"""

import glob
import json
import os
import sys

from rapidocr import RapidOCR

read = RapidOCR()
pages = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.png"))):
    found = read(path)
    pages[os.path.basename(path)] = [
        {"box": [round(float(v)) for corner in box for v in corner], "text": text, "confidence": round(float(score), 3)}
        for box, text, score in zip(found.boxes, found.txts, found.scores)
    ]
json.dump(pages, sys.stdout, ensure_ascii=False, indent=0)
