package record

import (
	"bytes"
	"encoding/pem"
	"errors"
)

// The errors of DecodeText.
var (
	ErrTextLong = errors.New("the text is too long")
	ErrNotText  = errors.New("the text is not exactly one block of the right type")
)

// EncodeText returns raw as text for a file: one PEM block of the given type.
func EncodeText(blockType string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: raw})
}

// DecodeText returns the bytes that [EncodeText] encoded. It accepts other line ends and
// blanks at the end of lines, because mail programs change them. It refuses text around the
// block, which would look signed. The error is ErrTextLong if the text has more than maxText
// bytes, or else ErrNotText.
func DecodeText(blockType string, text []byte, maxText int) ([]byte, error) {
	if len(text) > maxText {
		return nil, ErrTextLong
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for i, l := range lines {
		lines[i] = bytes.TrimRight(l, " \t\r")
	}
	clean := append(bytes.Join(lines, []byte("\n")), '\n')
	block, _ := pem.Decode(clean)
	if block == nil || block.Type != blockType || len(block.Headers) > 0 ||
		!bytes.Equal(pem.EncodeToMemory(block), clean) {
		return nil, ErrNotText
	}
	return block.Bytes, nil
}
