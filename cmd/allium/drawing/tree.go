// Package drawing draws what is easier to see than to read: trees, QR codes and tables of limits, as
// lines of text. It writes nothing itself.
package drawing

import (
	"strings"
	"unicode/utf8"
)

// Branch is a line of a drawn tree, and the lines below it.
type Branch struct {
	Text  string
	Below []Branch
}

// Width is the maximum number of columns of a tree.
const Width = 100

// Tree writes branches as a tree. Each line begins with indent and has at most Width
// columns; longer texts continue on the next line.
func Tree(b *strings.Builder, indent string, branches []Branch) {
	for i, br := range branches {
		first, rest := "├─ ", "│  "
		if i == len(branches)-1 {
			first, rest = "└─ ", "   "
		}
		under := "   "
		if len(br.Below) > 0 {
			under = "│  "
		}
		lines := Fold(br.Text, Width-utf8.RuneCountInString(indent)-len("   "), len("   "))
		for k, line := range lines {
			lead := first
			if k > 0 {
				lead = rest + under
			}
			b.WriteString(strings.TrimRight(indent+lead+line, " ") + "\n")
		}
		Tree(b, indent+rest, br.Below)
	}
}

// Fold cuts text into lines of at most width columns, at spaces where that is possible.
// All lines but the first are shorter by less columns.
func Fold(text string, width, less int) (lines []string) {
	left := []rune(text)
	for len(left) > width {
		cut := width
		for k := width; k > width/3; k-- {
			if left[k] == ' ' {
				cut = k
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(left[:cut]), " "))
		left = []rune(strings.TrimLeft(string(left[cut:]), " "))
		if len(lines) == 1 {
			width -= less
		}
	}
	return append(lines, string(left))
}
