package term

import (
	"fmt"
	"io"
	"strings"

	"allium/internal/printable"
)

// Line is the last line of a terminal, which shows the state of a command that goes on. One goroutine
// uses it at a time.
type Line struct {
	w       io.Writer
	columns int
	shown   string
}

// NewLine returns a line of a terminal that has so many columns. If columns is 0, w is no terminal,
// and nothing is written.
func NewLine(w io.Writer, columns int) *Line { return &Line{w: w, columns: columns} }

// Set shows text in place of what was shown, cut at the width of the terminal.
func (l *Line) Set(text string) {
	if l.columns == 0 {
		return
	}
	text = strings.ReplaceAll(printable.Text(text), "\n", " ")
	l.draw(Cut(text, max(l.columns-1, 1)))
}

// Clear removes the line, so that something else can be written.
func (l *Line) Clear() { l.draw("") }

func (l *Line) draw(text string) {
	if l.columns == 0 || text == l.shown {
		return
	}
	l.shown = text
	_, _ = fmt.Fprint(l.w, "\r\x1b[K"+text) // drawing may fail; the work goes on
}
