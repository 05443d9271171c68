"""Makes a PDF of 500 pages of a JSON lines file's texts, for the figures of docs/adr/0013-files.md:

    python pages.py CONTEXTS.jsonl OUT.pdf
"""
import json
import sys

from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer

with open(sys.argv[1], encoding="utf-8") as lines:
    texts = [json.loads(line)["text"] for line in lines]
styles, story = getSampleStyleSheet(), []
for i in range(4000):
    if i % 7 == 0:
        story.append(Paragraph(f"Chapter {1 + i // 7}", styles["Heading1"]))
    text = texts[i % len(texts)].replace("&", "&amp;").replace("<", "&lt;")
    story += [Paragraph(f"{1 + i // len(texts)}. {text}", styles["BodyText"]), Spacer(1, 6)]


class Done(Exception):
    """The last page is there."""


class Pages(SimpleDocTemplate):
    def afterPage(self):
        if self.page == 500:
            raise Done


def footer(canvas, doc):
    canvas.drawString(280, 30, f"Page {doc.page}")


doc = Pages(sys.argv[2], pagesize=A4)
try:
    doc.build(story, onFirstPage=footer, onLaterPages=footer)
except Done:
    doc.canv.save()
