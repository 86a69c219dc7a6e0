package oap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"allium/protocols/oap"
)

// vector is one block of testdata/frames.txt.
type vector struct {
	name     string
	maxFrame uint32
	stream   []byte
	frames   []string
	reason   string
}

func vectors(t testing.TB) []vector {
	raw, err := os.ReadFile("testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		v := vector{maxFrame: oap.MaxFrame}
		for line := range strings.Lines(block) {
			key, val, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch key {
			case "name":
				v.name = val
			case "max_frame":
				n, err := strconv.ParseUint(val, 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				v.maxFrame = uint32(n)
			case "hex":
				p, err := hex.DecodeString(strings.ReplaceAll(val, " ", ""))
				if err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				v.stream = append(v.stream, p...)
			case "frame":
				v.frames = append(v.frames, val)
			case "error":
				v.reason = val
			}
		}
		if v.name != "" {
			all = append(all, v)
		}
	}
	if len(all) < 60 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

// describe returns a frame in the notation of the vectors.
func describe(f oap.Frame) string {
	or := func(p []byte) string {
		if len(p) == 0 {
			return "-"
		}
		return hex.EncodeToString(p)
	}
	return fmt.Sprintf("%s code=%d proto=%d tenant=%x corr=%d cap=%s payload=%s", f.Flags, f.Code, f.Proto, f.Tenant,
		f.CorrID, or(f.Cap), or(f.Payload))
}

// accept checks a frame like the protocols above the codec do.
func accept(f oap.Frame, maxFrame uint32) (err error) {
	payload := f.Payload
	if f.Flags.Has(oap.FlagComp) {
		if payload, err = codec.Inflate(nil, payload, maxFrame); err != nil {
			return err
		}
	}
	if f.Proto == oap.ProtoControl && f.CorrID == 0 {
		switch {
		case f.Flags.Has(oap.FlagReq):
			_, err = oap.DecodeHelloRequest(payload)
		case f.Flags.Has(oap.FlagResp):
			_, err = oap.DecodeHelloResponse(payload)
		}
	}
	return err
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.name, func(t *testing.T) {
			for split, r := range map[string]io.Reader{
				"whole":    bytes.NewReader(v.stream),
				"one byte": iotest.OneByteReader(bytes.NewReader(v.stream)),
				"half":     iotest.HalfReader(bytes.NewReader(v.stream)),
				"data+EOF": iotest.DataErrReader(bytes.NewReader(v.stream)),
			} {
				checkVector(t, split, v, oap.NewReader(r, v.maxFrame))
			}
		})
	}
}

func checkVector(t *testing.T, split string, v vector, r *oap.Reader) {
	var again []byte
	for i := 0; ; i++ {
		f, err := r.Next()
		if err == nil {
			err = accept(f, v.maxFrame)
		}
		if err != nil {
			if i != len(v.frames) {
				t.Errorf("%s: %d frames, want %d", split, i, len(v.frames))
			}
			checkReason(t, split, err, v.reason)
			break
		}
		if i >= len(v.frames) || describe(f) != v.frames[i] {
			t.Fatalf("%s: unexpected frame\n%s", split, describe(f))
		}
		if again, err = oap.AppendFrame(again, f, v.maxFrame); err != nil {
			t.Fatalf("%s: encode: %v", split, err)
		}
	}
	if !bytes.HasPrefix(v.stream, again) || v.reason == "" && len(again) != len(v.stream) {
		t.Errorf("%s: encodes to\n%x, want\n%x", split, again, v.stream)
	}
}

func checkReason(t *testing.T, split string, err error, want string) {
	var de *oap.DecodeError
	switch {
	case want == "":
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want a clean end", split, err)
		}
	case !errors.As(err, &de):
		t.Errorf("%s: %v, want %s", split, err, want)
	case de.Reason.String() != want:
		t.Errorf("%s: %v, want %s", split, err, want)
	}
}
