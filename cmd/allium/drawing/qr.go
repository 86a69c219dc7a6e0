package drawing

import (
	"fmt"
	"strings"

	"rsc.io/qr"
)

// quietZone is the width in modules of the white border that a reader of QR codes needs.
const quietZone = 4

// QR draws a ticket as a QR code. It uses upper case, which takes 5.5 bits a character in place of 8.
func QR(ticket string) (string, error) { return QRText(strings.ToUpper(ticket)) }

// QRText draws a text as a QR code with half blocks, white on black: two rows of modules are one line.
func QRText(text string) (string, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "", fmt.Errorf("draw the QR code: %w", err)
	}
	var b strings.Builder
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		for x := -quietZone; x < code.Size+quietZone; x++ {
			b.WriteString([...]string{"█", "▀", "▄", " "}[halfBlock(code, x, y)])
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// halfBlock returns which of two modules, one above the other, are black: 2 the upper one, 1 the lower one.
func halfBlock(code *qr.Code, x, y int) (black int) {
	if code.Black(x, y) {
		black = 2
	}
	if code.Black(x, y+1) {
		black++
	}
	return black
}
