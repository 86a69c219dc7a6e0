package testkit

import (
	"bytes"
	"encoding/binary"
)

// WAVRate is the rate of the sounds that WAV returns, in samples a second.
const WAVRate = 8000

// WAV returns a WAV file with one channel. Each byte is a sample, 128 is silence.
func WAV(samples []byte) []byte {
	var b bytes.Buffer
	n := uint32(len(samples))
	for _, v := range []any{
		[]byte("RIFF"), 36 + n, []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(WAVRate), uint32(WAVRate),
		uint16(1), uint16(8), []byte("data"), n, samples,
	} {
		_ = binary.Write(&b, binary.LittleEndian, v) // a Buffer takes everything
	}
	return b.Bytes()
}
