package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// The bounds of one text.
const (
	// workBudget bounds the work of inline parsers and tables: bytes that each special character may make a parser
	// look at, and cells. Ordinary texts of MaxSource bytes need a twentieth of it.
	workBudget = 8 << 20
	// maxNesting bounds the containers (quotes and list items) at the start of a line.
	maxNesting = 24
	// maxIndent bounds the blanks at the start of a line, in columns: a list item needs two.
	maxIndent = 200
	// maxLines bounds the lines of a paragraph. Parsing link definitions is quadratic in them.
	maxLines = 2048
	// cellCost is the part of workBudget that one cell of a table takes.
	cellCost = 64
)

// spent is the panic value with which budget ends a parser: goldmark cannot be canceled.
var spent = new(int)

// budget counts down the work of one text.
type budget struct {
	left int

	block      ast.Node // the block that inline parsers work on
	delimiters int      // special characters seen in it
}

// take takes n from the budget and panics with spent if less is left.
func (b *budget) take(n int) {
	if b.left -= n; b.left < 0 {
		panic(spent)
	}
}

// inlineBudget takes from the budget at each special character. It never parses anything.
type inlineBudget struct{ *budget }

// Trigger implements parser.InlineParser.
func (inlineBudget) Trigger() []byte { return []byte("[]!*_`<~:@h&\\w") }

// Parse implements parser.InlineParser. A parser may look from here to the end of the block, and the delimiters so
// far may be compared with each other.
func (b inlineBudget) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	_, here := block.PeekLine()
	if parent != b.block {
		b.block, b.delimiters = parent, 0
	}
	b.delimiters++
	switch block.Source()[here.Start] {
	case 'h', 'w', ':', '@', '&', '\\': // they make a parser look at a word
		b.take(16)
		return nil
	}
	rest := here.Stop - here.Start
	if parent.Type() == ast.TypeBlock && parent.Lines().Len() > 0 {
		rest = parent.Lines().At(parent.Lines().Len()-1).Stop - here.Start
	}
	b.take(64 + max(0, rest)/8 + b.delimiters)
	return nil
}

// paragraphBudget checks paragraphs before they become tables or link definitions.
type paragraphBudget struct{ *budget }

// Transform implements parser.ParagraphTransformer. A table has as many cells in each row as its header has.
func (b paragraphBudget) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines := node.Lines()
	if lines.Len() > maxLines {
		panic(spent)
	}
	for i := range lines.Len() {
		line := lines.At(i)
		value := line.Value(reader.Source())
		if isDelimiterRow(value) {
			b.take(cellCost * (bytes.Count(value, []byte("-")) + 1) * (lines.Len() - i + 1))
		}
	}
}

// isDelimiterRow reports whether a line may separate the header of a table from its rows.
func isDelimiterRow(line []byte) bool {
	return bytes.IndexByte(line, '-') >= 0 && len(bytes.Trim(line, "|-: \t\r\n")) == 0 &&
		bytes.ContainsAny(line, "|:-")
}

// tooDeep reports whether a line of src begins inside more than maxNesting containers, or with more than maxIndent
// columns of blanks.
func tooDeep(src []byte) bool {
	for line := range bytes.Lines(src) {
		if depth, columns := nesting(line); depth > maxNesting || columns > maxIndent {
			return true
		}
	}
	return false
}

// nesting counts the container markers at the start of a line, and the columns of blanks among them.
func nesting(line []byte) (depth, columns int) {
	for i, c := range line {
		blankNext := i+1 == len(line) || bytes.IndexByte([]byte(" \t\r\n"), line[i+1]) >= 0
		switch {
		case c == ' ':
			columns++
		case c == '\t':
			columns += 4
		case c >= '0' && c <= '9':
		case c == '>', bytes.IndexByte([]byte("-*+.)"), c) >= 0 && blankNext:
			depth++
		default:
			return depth, columns
		}
	}
	return depth, columns
}
