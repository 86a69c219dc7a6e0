package session_test

import (
	"bytes"

	"allium/protocols/oap"
)

// encode returns the bytes of a frame. The errors are those of [oap.Writer.Write].
func encode(f oap.Frame) ([]byte, error) {
	var b bytes.Buffer
	err := oap.NewWriter(&b, oap.MaxFrame).Write(f)
	return b.Bytes(), err
}
