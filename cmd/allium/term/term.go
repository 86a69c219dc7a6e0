// Package term reads from and writes to the terminal that a command runs on.
//
// Wrap breaks a text at words to fit a number of columns. Progress shows how far work has come, and
// Interruptible reads input until a context ends. Only a timer of Progress runs beside the caller,
// until Finish.
//
// A command walks through it like this: it asks Columns how wide standard error
// is, draws a line with Progress while it works, and wraps its error with Wrap.
// Where standard error is a pipe, Columns is 0 and Wrap changes nothing.
package term

import (
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Columns returns the width of the terminal that f is, and 0 if f is none.
func Columns(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Rows returns the height of the terminal that f is, and 0 if f is none.
func Rows(f *os.File) int {
	_, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return rows
}

// Clear makes a terminal empty and puts the cursor at its start.
const Clear = "\x1b[H\x1b[2J"

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Wrap breaks each line of text between words, so that no line has more than
// columns characters. Lines that it adds begin with two spaces more than the
// line that they continue. A word that is longer than a line stays whole, and
// columns below 1 leaves text as it is.
func Wrap(text string, columns int) string {
	if columns < 1 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wrapLine(line, columns)
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var b strings.Builder
	b.WriteString(indent + words[0])
	used := utf8.RuneCountInString(indent + words[0])
	for _, word := range words[1:] {
		n := utf8.RuneCountInString(word)
		if used+1+n > columns {
			b.WriteString("\n" + indent + "  " + word)
			used = len(indent) + 2 + n
			continue
		}
		b.WriteString(" " + word)
		used += 1 + n
	}
	return b.String()
}
