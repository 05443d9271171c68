"""Makes the fixtures of formats_test.go with other people's libraries:
python-docx 1.2.0, python-pptx 1.0.2, openpyxl 3.1.5, odfpy 1.4.1, EbookLib 0.20, reportlab 5.1.0, pypdf 7.1.0.

    python formats.py FOLDER
"""
import datetime
import email.message
import mailbox
import os
import sys
import zipfile

import docx
import pypdf
import openpyxl
import pptx
from ebooklib import epub
from odf import opendocument, table, text
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen import canvas

os.chdir(sys.argv[1])

# Word: headings, a list, a table, a line break, deleted text, a style that is a heading by its level.
d = docx.Document()
d.core_properties.title = "Harbour handbook"
d.add_heading("Harbour", 1)
d.add_paragraph("Ships moor at the quay.").add_run(" The tide\ndecides when.")
d.add_heading("Fees", 2)
d.add_paragraph("per metre", style="List Bullet")
d.add_paragraph("per night", style="List Bullet")
t = d.add_table(rows=2, cols=2)
for i, words in enumerate([["Length", "Fee"], ["12 m", "30 €"]]):
    for j, word in enumerate(words):
        t.cell(i, j).text = word
d.add_paragraph("Fees are due on arrival.")
p = d.add_paragraph("Kept.")
gone = docx.oxml.parse_xml(
    '<w:del xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" w:id="1" w:author="x">'
    "<w:r><w:delText>Deleted.</w:delText></w:r></w:del>"
)
p._p.append(gone)
d.sections[0].header.paragraphs[0].text = "Header on every page"
d.save("harbour.docx")

# PowerPoint: titles, bullets, a table, notes, a slide without a title.
s = pptx.Presentation()
s.core_properties.title = "Winds"
one = s.slides.add_slide(s.slide_layouts[1])
one.shapes.title.text = "Winds of the coast"
one.placeholders[1].text = "The bora is cold.\nThe sirocco is warm."
one.notes_slide.notes_text_frame.text = "Tell the story of the bora."
two = s.slides.add_slide(s.slide_layouts[6])
cells = two.shapes.add_table(2, 2, 0, 0, 3000000, 1000000).table
for i, words in enumerate([["Wind", "Knots"], ["Bora", "60"]]):
    for j, word in enumerate(words):
        cells.cell(i, j).text = word
s.save("winds.pptx")

# Excel: two sheets, dates, times, numbers, booleans, a formula, an empty column, a hidden sheet.
w = openpyxl.Workbook()
a = w.active
a.title = "Prices"
a.append(["Berth", "Since", "Fee", "Free", None, "Note"])
a.append(["A 1", datetime.date(2024, 3, 31), 0.1 + 0.2, True, None, "by the pier"])
a.append(["B 2", datetime.datetime(2024, 4, 1, 13, 30), 1250000, False, None, None])
a["C4"] = "=C2*2"
b = w.create_sheet("Crew & guests")
b.append(["Ada", "captain"])
h = w.create_sheet("Secret")
h.append(["hidden", "things"])
h.sheet_state = "hidden"
w.save("prices.xlsx")

# OpenDocument text and spreadsheet.
o = opendocument.OpenDocumentText()
o.text.addElement(text.H(outlinelevel=1, text="Lights"))
para = text.P(text="A lighthouse")
para.addElement(text.S(c=2))
para.addText("warns ships.")
para.addElement(text.LineBreak())
para.addText("It turns.")
o.text.addElement(para)
o.text.addElement(text.H(outlinelevel=2, text="Colours"))
items = text.List()
for word in ["red", "green"]:
    item = text.ListItem()
    item.addElement(text.P(text=word))
    items.addElement(item)
o.text.addElement(items)
o.save("lights.odt")
o = opendocument.OpenDocumentSpreadsheet()
sheet = table.Table(name="Tides")
for words in [["Hour", "Height"], ["06:00", "2.1 m"]]:
    row = table.TableRow()
    for word in words:
        cell = table.TableCell()
        cell.addElement(text.P(text=word))
        row.addElement(cell)
    sheet.addElement(row)
o.spreadsheet.addElement(sheet)
o.save("tides.ods")

# A book of two chapters.
e = epub.EpubBook()
e.set_identifier("id")
e.set_title("The sea & I")
e.set_language("en")
chapters = []
for n, (name, body) in enumerate([("Departure", "We left at dawn."), ("Return", "We came back &amp; slept.")]):
    c = epub.EpubHtml(title=name, file_name=f"chapter {n}.xhtml", lang="en")
    c.content = f"<h1>{name}</h1><p>{body}</p>"
    e.add_item(c)
    chapters.append(c)
e.spine = ["nav"] + chapters[::-1]
e.add_item(epub.EpubNcx())
e.add_item(epub.EpubNav())
epub.write_epub("sea.epub", e)

# Messages: alternatives, an attachment, a subject that is not ASCII, quoted-printable.
m = email.message.EmailMessage()
m["Subject"] = "Grüße vom Hafen"
m["From"] = "Ada <ada@example.org>"
m["To"] = "bob@example.org"
m["Date"] = "Sun, 31 Mar 2024 10:00:00 +0000"
m["Message-ID"] = "<1@example.org>"
m.set_content("Die Fähre fährt um zehn.\n\nBis bald!\n")
m.add_alternative("<p>Die Fähre fährt um <b>zehn</b>.</p>", subtype="html")
m.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="fahrplan.pdf")
open("greetings.eml", "wb").write(bytes(m))
html = email.message.EmailMessage()
html["Subject"] = "Only HTML"
html["Message-ID"] = "<2@example.org>"
html.set_content("<p>The <i>tide</i> turns.</p>", subtype="html")
box = mailbox.mbox("letters.mbox")
for one in (m, html):
    box.add(one)
box.flush()
os.remove("letters.mbox.lock") if os.path.exists("letters.mbox.lock") else None

# PDF: a running title, page numbers, headings by size, two columns, a parted word, a page without text; the same encrypted.
c = canvas.Canvas("tides.pdf", pagesize=A5, invariant=1)
c.setTitle("Tides & winds")


def page(number, blocks):
    c.setFont("Helvetica", 8)
    c.drawString(40, 570, "The harbour handbook")
    c.drawString(200, 20, f"- {number} -")
    for x, y, size, lines in blocks:
        t = c.beginText(x, y)
        t.setFont("Helvetica", size, leading=size * 1.2)
        for line in lines:
            t.textLine(line)
        c.drawText(t)
    c.showPage()


page(1, [
    (40, 530, 18, ["Tides"]),
    (40, 500, 10, ["The tide turns four times a day. At new moon and at", "full moon it is highest, which sailors call a spring",
                   "tide."]),
    (40, 440, 10, ["A second paragraph ends in a parted harbour-", "master of the old school."]),
    (40, 400, 13, ["Neap tides"]),
    (40, 380, 10, ["Between them the difference is smallest."]),
])
page(2, [
    (40, 530, 10, ["The left column says", "what comes first and", "goes on below."]),
    (220, 530, 10, ["The right column says", "what comes second."]),
])
c.rect(100, 100, 200, 200, fill=1)
page(3, [])
page(4, [(40, 530, 18, ["Winds"]), (40, 500, 10, ["The bora is cold: Gr\u00fc\u00dfe, \u20ac 5."])])
c.rect(100, 100, 200, 200, fill=1)
c.showPage()
c.save()
locked = pypdf.PdfWriter("tides.pdf")
locked.encrypt("secret", algorithm="AES-256")
locked.write("locked.pdf")

# The archives' times are not ours to keep.
for name in os.listdir("."):
    if not zipfile.is_zipfile(name):
        continue
    with zipfile.ZipFile(name) as old:
        parts = [(i.filename, old.read(i)) for i in old.infolist() if not i.filename.endswith((".jpeg", ".png"))]
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as new:
        for part, content in parts:
            if "theme" in part or "slideLayouts/slideLayout" in part and "1.xml" not in part:
                continue
            new.writestr(zipfile.ZipInfo(part, (2024, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
