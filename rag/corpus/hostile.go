package corpus

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Limits of what the Markdown parser is given. No document that people write comes near them.
const (
	// bytes of container markers ("> > - - 1. ") that a line begins with: the parser recurses once per container
	maxMarkers   = 1000
	maxPadding   = 1 << 20  // table cells that rows lack: the parser makes them all
	maxLinkSteps = 32 << 20 // bytes scanned for the ends of links that have none, which is quadratic
)

// isHostile tells whether parsing src as Markdown could exhaust stack or memory. It is read as plain text then.
func isHostile(src string) bool {
	columns, padding := 0, 0
	for line := range strings.Lines(src) {
		if len(line)-len(strings.TrimLeft(line, "> \t-+*0123456789.)")) > maxMarkers {
			return true
		}
		pipes := strings.Count(line, "|")
		switch {
		case strings.Contains(line, "-") && strings.Trim(line, "|:-> \t\r\n") == "":
			columns = pipes
		case strings.TrimSpace(line) == "":
			columns = 0
		default:
			if padding += max(columns-pipes, 0); padding > maxPadding {
				return true
			}
		}
	}
	return false
}

// boundedLinks is goldmark's link parser with a limit on what "[a](" without an end may cost: beyond
// it, links of the document stay as they are written.
type boundedLinks struct {
	parser.InlineParser
	steps int
}

func (b *boundedLinks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, at := block.PeekLine()
	isEnd := len(line) > 1 && line[0] == ']' && line[1] == '('
	if isEnd && b.steps > maxLinkSteps {
		return nil
	}
	n := b.InlineParser.Parse(parent, block, pc)
	if isEnd && n == nil {
		p := parent
		for p.Type() == ast.TypeInline && p.Parent() != nil {
			p = p.Parent()
		}
		if l := p.Lines(); l != nil && l.Len() > 0 {
			b.steps += max(l.At(l.Len()-1).Stop-at.Start, 0)
		}
	}
	return n
}

// CloseBlock is called at the end of each block with links in it.
func (b *boundedLinks) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if c, ok := b.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, block, pc)
	}
}
