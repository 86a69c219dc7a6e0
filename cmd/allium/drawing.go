package main

import (
	"strings"
	"unicode/utf8"
)

// branch is a line of a drawn tree, and the lines below it.
type branch struct {
	text  string
	below []branch
}

// drawWidth is the maximum number of columns of a tree.
const drawWidth = 100

// draw writes branches as a tree. Each line begins with indent and has at most drawWidth
// columns; longer texts continue on the next line.
func draw(b *strings.Builder, indent string, branches []branch) {
	for i, br := range branches {
		first, rest := "├─ ", "│  "
		if i == len(branches)-1 {
			first, rest = "└─ ", "   "
		}
		under := "   "
		if len(br.below) > 0 {
			under = "│  "
		}
		lines := fold(br.text, drawWidth-utf8.RuneCountInString(indent)-len("   "), len("   "))
		for k, line := range lines {
			lead := first
			if k > 0 {
				lead = rest + under
			}
			b.WriteString(strings.TrimRight(indent+lead+line, " ") + "\n")
		}
		draw(b, indent+rest, br.below)
	}
}

// fold cuts text into lines of at most width columns, at spaces where that is possible.
// All lines but the first are shorter by less columns.
func fold(text string, width, less int) (lines []string) {
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
