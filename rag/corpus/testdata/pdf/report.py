"""Makes report-PRODUCER.pdf of one report with eight programs, and report.txt with its words:

    python report.py wkhtmltopdf chromium libreoffice latex reportlab cairo fpdf ghostscript

Each program has to be there; ghostscript rewrites the file of cairo.
"""
import html
import os
import subprocess
import sys
import textwrap

REPORT = [
    ("head", "1 The harbour accounts"),
    ("text", "At December 31, 2021 the harbour held 1,311 berths, of which 1,117 were let; fees came to $1,695.11 and "
             "11.1 % was unpaid. AVATAR and Tokyo Maru, two official first-class ships, were the final ones: "
             "their owners filed 17 affidavits, and the well-known pilot of 1911 carried off 41,171 tons. "
             "In the year before, (2,114) berths were difficult to fill, though 71.7 % of the traffic flowed."),
    ("rows", [["Year", "2019", "2020", "2021"], ["Fees", "1,351", "1,171", "1,695"],
              ["Repairs", "(211)", "(1,113)", "(411)"], ["Pilots", "7.1 %", "11.4 %", "17.11 %"]]),
    ("head", "2 The lighthouse"),
    ("text", "The lighthouse of Arles shone 4,711 hours. Its long-term keeper, A. W. Tarr, saw 1,114,171 waves, "
             "or 11.17 a minute; Valletta and Yverdon asked for fewer than 1,000,111."),
]


def run(*command):
    home = dict(os.environ, HOME="/tmp/report", QT_QPA_PLATFORM="offscreen")
    subprocess.run(command, env=home, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def page():
    out = ["<!doctype html><meta charset=utf-8><title>Report</title><style>body{font:11pt serif}p{text-align:justify}"
           "td{padding:2px 8px;text-align:right}</style>"]
    for kind, what in REPORT:
        if kind == "head":
            out.append(f"<h2>{html.escape(what)}</h2>")
        elif kind == "text":
            out.append(f"<p>{html.escape(what)}</p>")
        else:
            rows = ("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in what)
            out.append("<table>" + "".join(rows) + "</table>")
    with open("/tmp/report/report.html", "w", encoding="utf-8") as f:
        f.write("\n".join(out))
    return "/tmp/report/report.html"


def wkhtmltopdf(file):
    run("wkhtmltopdf", "-q", page(), file)


def chromium(file):
    run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={file}",
        "file://" + page())


def libreoffice(file):
    run("soffice", "--headless", "--infilter=HTML (StarWriter)", "--convert-to", "pdf:writer_pdf_Export", "--outdir", "/tmp/report", page())
    os.replace("/tmp/report/report.pdf", file)


def latex(file):
    def tex(text):
        return text.replace("%", "\\%").replace("$", "\\$")
    out = ["\\documentclass{article}\\pagestyle{empty}\\begin{document}"]
    for kind, what in REPORT:
        if kind == "head":
            out.append(f"\\section*{{{tex(what)}}}")
        elif kind == "text":
            out.append(tex(what) + "\n")
        else:
            rows = "\\\\\n".join("&".join(tex(c) for c in row) for row in what)
            out.append(f"\\begin{{tabular}}{{lrrr}}{rows}\\end{{tabular}}\n")
    with open("/tmp/report/report.tex", "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\\end{document}\n")
    run("pdflatex", "-interaction=batchmode", "-output-directory=/tmp/report", "/tmp/report/report.tex")
    os.replace("/tmp/report/report.pdf", file)


def reportlab(file):
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Table
    styles = getSampleStyleSheet()
    make = {"head": lambda x: Paragraph(x, styles["Heading1"]), "text": lambda x: Paragraph(x, styles["BodyText"]),
            "rows": Table}
    SimpleDocTemplate(file, invariant=1).build([make[kind](what) for kind, what in REPORT])


def cairo(file):
    import cairo as c
    surface = c.PDFSurface(file, 595, 842)
    context, y = c.Context(surface), 60
    context.select_font_face("serif")
    for kind, what in REPORT:
        rows = what if kind == "rows" else [[line] for line in textwrap.wrap(what, 85)]
        context.set_font_size(16 if kind == "head" else 11)
        for row in rows:
            for i, cell in enumerate(row):
                context.move_to(50 + 90 * i, y)
                context.show_text(cell)
            y += 14
        y += 14
    surface.finish()


def fpdf(file):
    from fpdf import FPDF
    pdf = FPDF()
    pdf.add_page()
    for kind, what in REPORT:
        pdf.set_font("helvetica", size=16 if kind == "head" else 11)
        if kind == "rows":
            for row in what:
                for cell in row:
                    pdf.cell(30, 5, cell)
                pdf.ln(5)
        else:
            pdf.multi_cell(0, 5, what, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(4)
    pdf.output(file)


def ghostscript(file):
    run("gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=pdfwrite", f"-sOutputFile={file}", "report-cairo.pdf")


os.makedirs("/tmp/report", exist_ok=True)
words = set()
for _, content in REPORT:
    for part in [content] if isinstance(content, str) else sum(content, []):
        words.update(part.split())
with open("report.txt", "w", encoding="utf-8") as out_file:
    out_file.write("\n".join(sorted(words)) + "\n")
for name in sys.argv[1:]:
    globals()[name](os.path.abspath(f"report-{name}.pdf"))
