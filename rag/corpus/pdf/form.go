package pdf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Bounds of what a page's form may hold: fields, and lines that are compared with each.
const (
	pdfFields     = 1000
	pdfFieldLines = 200
)

// checked stands where a box is checked.
const checked = "[x]"

// pdfForm reads the fields of a document's form, and text that was typed upon its pages.
type pdfForm struct {
	pdfium.Pdfium
	handle references.FPDF_FORMHANDLE // "": the document has no fields
}

// openForm begins the reading of a document's form; end ends it.
func openForm(in pdfium.Pdfium, doc references.FPDF_DOCUMENT) (f pdfForm, end func()) {
	f, end = pdfForm{Pdfium: in}, func() {}
	kind, err := in.FPDF_GetFormType(&requests.FPDF_GetFormType{Document: doc})
	if err != nil || kind.FormType == enums.FPDF_FORMTYPE_NONE {
		return f, end
	}
	opened, err := in.FPDFDOC_InitFormFillEnvironment(&requests.FPDFDOC_InitFormFillEnvironment{Document: doc,
		FormFillInfo: structs.FPDF_FORMFILLINFO{ // what a viewer would do: nothing
			FFI_Invalidate:         func(references.FPDF_PAGE, float64, float64, float64, float64) {},
			FFI_SetCursor:          func(enums.FXCT) {},
			FFI_SetTimer:           func(int, func(int)) int { return 0 },
			FFI_KillTimer:          func(int) {},
			FFI_GetLocalTime:       func() (t structs.FPDF_SYSTEMTIME) { return t },
			FFI_GetPage:            func(references.FPDF_DOCUMENT, int) *references.FPDF_PAGE { return nil },
			FFI_GetRotation:        func(references.FPDF_PAGE) (r enums.FPDF_PAGE_ROTATION) { return r },
			FFI_ExecuteNamedAction: func(string) {},
		}})
	if err != nil {
		return f, end
	}
	f.handle = opened.FormHandle
	return f, func() {
		_, _ = in.FPDFDOC_ExitFormFillEnvironment(&requests.FPDFDOC_ExitFormFillEnvironment{FormHandle: f.handle})
	}
}

// values are what was filled into the fields of a page or typed upon it, where they stand.
func (f pdfForm) values(page requests.Page) (out []pdfWord) {
	n, err := f.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: page})
	if err != nil || n.Count == 0 {
		return nil
	}
	if f.handle != "" { // whether a box is checked is known of loaded pages only
		_, err = f.FORM_OnAfterLoadPage(&requests.FORM_OnAfterLoadPage{Page: page, FormHandle: f.handle})
		if err != nil {
			return nil
		}
		defer func() {
			_, _ = f.FORM_OnBeforeClosePage(&requests.FORM_OnBeforeClosePage{Page: page, FormHandle: f.handle})
		}()
	}
	for i := range min(n.Count, pdfFields) {
		a, err := f.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: page, Index: i})
		if err != nil {
			continue
		}
		if w, ok := f.value(a.Annotation); ok {
			out = append(out, w)
		}
		_, _ = f.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: a.Annotation})
	}
	return out
}

// value returns the value of a field or the text of an annotation that is typed upon the page.
func (f pdfForm) value(a references.FPDF_ANNOTATION) (w pdfWord, ok bool) {
	kind, err := f.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: a})
	if err != nil {
		return w, false
	}
	said := ""
	switch {
	case kind.Subtype == enums.FPDF_ANNOT_SUBTYPE_FREETEXT:
		said = f.typed(a)
	case kind.Subtype == enums.FPDF_ANNOT_SUBTYPE_WIDGET && f.handle != "":
		said = f.field(a)
	}
	if w.text = strings.Join(strings.Fields(doc.Clean(strings.TrimRight(said, "\x00"))), " "); w.text == "" {
		return w, false
	}
	at, err := f.FPDFAnnot_GetRect(&requests.FPDFAnnot_GetRect{Annotation: a})
	if err != nil {
		return w, false
	}
	r := at.Rect
	w.box = box{float64(min(r.Left, r.Right)), float64(max(r.Left, r.Right)), float64(min(r.Bottom, r.Top)),
		float64(max(r.Bottom, r.Top))}
	return w, true
}

// typed returns the text of an annotation, unless it is hidden.
func (f pdfForm) typed(a references.FPDF_ANNOTATION) string {
	flags, err := f.FPDFAnnot_GetFlags(&requests.FPDFAnnot_GetFlags{Annotation: a})
	if err != nil || flags.Flags&(enums.FPDF_ANNOT_FLAG_HIDDEN|enums.FPDF_ANNOT_FLAG_NOVIEW) != 0 {
		return ""
	}
	said, err := f.FPDFAnnot_GetStringValue(&requests.FPDFAnnot_GetStringValue{Annotation: a, Key: "Contents"})
	if err != nil {
		return ""
	}
	return said.Value
}

// field returns the value of a field: a text, a choice, or "[x]" where a box is checked.
func (f pdfForm) field(a references.FPDF_ANNOTATION) string {
	kind, err := f.FPDFAnnot_GetFormFieldType(&requests.FPDFAnnot_GetFormFieldType{FormHandle: f.handle, Annotation: a})
	if err != nil {
		return ""
	}
	switch kind.FormFieldType {
	case enums.FPDF_FORMFIELD_TYPE_CHECKBOX, enums.FPDF_FORMFIELD_TYPE_RADIOBUTTON:
		is, err := f.FPDFAnnot_IsChecked(&requests.FPDFAnnot_IsChecked{FormHandle: f.handle, Annotation: a})
		if err == nil && is.IsChecked {
			return checked
		}
	case enums.FPDF_FORMFIELD_TYPE_TEXTFIELD, enums.FPDF_FORMFIELD_TYPE_COMBOBOX, enums.FPDF_FORMFIELD_TYPE_LISTBOX:
		said, err := f.FPDFAnnot_GetFormFieldValue(&requests.FPDFAnnot_GetFormFieldValue{FormHandle: f.handle,
			Annotation: a})
		if err == nil {
			return said.FormFieldValue
		}
	}
	return ""
}

// fill puts values of fields into the lines that they stand on: behind what stands before them, which is the label, or
// in front of what stands behind. What has no line is one of its own.
func (l *pdfLines) fill(values []pdfWord) {
	if len(values) == 0 {
		return
	}
	order := make([]int, len(*l)) // of lines, from the top
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare((*l)[b].top, (*l)[a].top) })
	for _, w := range values {
		from, _ := slices.BinarySearchFunc(order, w.top+w.height(), func(i int, top float64) int {
			return cmp.Compare(top, (*l)[i].top)
		})
		best, before := -1, false
		for _, i := range order[from:min(from+pdfFieldLines, len(order))] {
			x := &(*l)[i]
			switch {
			case x.over(w.box) < .5:
			case x.left <= w.left && (best < 0 || !before || x.left > (*l)[best].left):
				best, before = i, true
			case x.left > w.left && !before && (best < 0 || x.left < (*l)[best].left):
				best = i
			}
		}
		if best < 0 {
			*l = append(*l, pdfLine{box: w.box, main: w.box, size: w.height(), cells: []pdfCell{{left: w.left,
				right: w.right, whole: []byte(w.text)}}})
			continue
		}
		(*l)[best].insert(w)
	}
}

// insert puts a field's value into a line: behind the last cell that begins before it, or the mark of a checked box in
// front of the next one.
func (x *pdfLine) insert(w pdfWord) {
	at := 0
	for at < len(x.cells) && x.cells[at].left <= w.left {
		at++
	}
	x.box = x.union(w.box)
	if w.text == checked && at < len(x.cells) || at == 0 {
		c := &x.cells[at]
		c.whole = append([]byte(w.text+" "), c.whole...)
		c.left = w.left
		return
	}
	c := &x.cells[at-1]
	c.whole = append(append(c.whole, ' '), w.text...)
	c.right = max(c.right, w.right)
}
