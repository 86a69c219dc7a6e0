// Package qrcode draws QR codes for pages.
package qrcode

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr"
)

// quietZone is the width in modules of the white border that a reader of QR codes needs.
const quietZone = 4

// Draw draws a text as a QR code, black on white. label says what it is; it needs no escapes. A text that is too long
// for a code has no drawing.
func Draw(text, label string) template.HTML {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return ""
	}
	var b strings.Builder
	side := code.Size + 2*quietZone
	fmt.Fprintf(&b,
		`<svg class="qr" viewBox="0 0 %d %d" shape-rendering="crispEdges" role="img" aria-label="%s">`+
			`<path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path fill="#000" d="`, side, side, label)
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			start := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if x > start {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%[3]dz", start+quietZone, y+quietZone, x-start)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers, and a label of the program
}
