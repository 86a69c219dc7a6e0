package oap

// AppendFrame appends f in its wire format. It refuses the frames that [Writer.Write] refuses.
func AppendFrame(dst []byte, f Frame, maxFrame uint32) ([]byte, error) {
	if _, err := f.seal(min(maxFrame, MaxFrame)); err != nil {
		return dst, err
	}
	var h [HeaderSize]byte
	f.put(h[:])
	dst = append(dst, h[:]...)
	dst = append(dst, f.Cap...)
	return append(dst, f.Payload...), nil
}
