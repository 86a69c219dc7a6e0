package object

import (
	"bytes"

	"allium/protocols/oap"
)

// EncodeFrame returns the bytes of a frame. The errors are those of [oap.Writer.Write].
func EncodeFrame(f oap.Frame) ([]byte, error) {
	var b bytes.Buffer
	err := oap.NewWriter(&b, oap.MaxFrame).Write(f)
	return b.Bytes(), err
}
