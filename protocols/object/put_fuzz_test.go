package object

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"allium/protocols/b3"
	"allium/protocols/oap"
)

// FuzzPut sends the server the frames of puts that a fuzzer changed: whatever arrives, it
// stores only bytes of the object at their place, an object is stored only whole, and
// nothing panics or stays open.
func FuzzPut(f *testing.F) {
	data := testData(2*b3.GroupSize+100, 1)
	small := [][]byte{testData(0, 1), testData(70, 2), testData(900, 3)}
	root := b3.Sum(data)
	wire := func(frames ...oap.Frame) (p []byte) {
		for _, fr := range frames {
			raw, err := encodeItems(fr)
			if err != nil {
				f.Fatal(err)
			}
			p = append(p, raw...)
		}
		return p
	}
	begin := func(payload string) oap.Frame {
		return oap.Frame{
			Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart, Proto: oap.ProtoObject, CorrID: 1},
			Cap:    []byte(token), Payload: []byte(payload),
		}
	}
	many := `{"op":"put","objs":["` + b3.Sum(small[0]).String() + `","` + b3.Sum(small[1]).String() + `","` +
		b3.Sum(small[2]).String() + `"],"sizes":[0,70,900]}`
	first := func(fr oap.Frame) []byte {
		raw, err := EncodeFrame(fr)
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	streams := [][]byte{
		append(first(begin(putOf(root, len(data)))), wire(itemFrames(f, 1, data)...)...),
		append(first(begin(many)), wire(oap.Frame{
			Header:  oap.Header{Flags: oap.FlagReq | oap.FlagEnd, Proto: oap.ProtoObject, CorrID: 1},
			Payload: append(bytes.Clone(small[1]), small[2]...),
		})...),
	}
	told := `{"op":"put","roots":"` + joined([]b3.Root{b3.Sum(small[1]), b3.Sum(small[2])}) +
		`","sizes":[70,900],"about":"YWJvdXQ"}`
	repair := begin(putOf(root, len(data)))
	repair.Code = codeRepair
	streams = append(streams, append(first(repair), wire(itemFrames(f, 1, data)...)...))
	streams = append(streams, append(first(begin(told)), wire(oap.Frame{
		Header:  oap.Header{Flags: oap.FlagReq | oap.FlagEnd, Proto: oap.ProtoObject, CorrID: 1},
		Payload: append(bytes.Clone(small[1]), small[2]...),
	})...))
	// A patch is 8 bytes: where (4), what (1), how (1: set, insert, delete, repeat), how much (2).
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{})
	f.Add(uint8(0), []byte{0, 0, 1, 0, 7, 0, 0, 1})
	f.Add(uint8(0), []byte{0, 1, 0, 0, 7, 2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 9})
	f.Add(uint8(1), []byte{0, 0, 0, 9, 0xff, 0, 0, 1})
	f.Add(uint8(2), []byte{})
	f.Add(uint8(2), []byte{0, 0, 1, 0, 7, 0, 0, 1})
	f.Add(uint8(3), []byte{})
	f.Add(uint8(3), []byte{0, 0, 0, 0x50, 'A', 0, 0, 1})
	f.Fuzz(func(t *testing.T, which uint8, patches []byte) {
		raw := bytes.Clone(streams[int(which)%len(streams)])
		for ; len(patches) >= 8 && len(raw) > 0 && len(raw) < 1<<20; patches = patches[8:] {
			at := int(binary.BigEndian.Uint32(patches)) % len(raw)
			n := min(int(binary.BigEndian.Uint16(patches[6:])), len(raw)-at)
			switch patches[5] % 4 {
			case 0:
				raw[at] = patches[4]
			case 1:
				raw = append(raw[:at:at], append(bytes.Repeat(patches[4:5], n), raw[at:]...)...)
			case 2:
				raw = append(raw[:at:at], raw[at+n:]...)
			case 3:
				raw = append(raw[:at+n:at+n], raw[at:]...)
			}
		}
		synctest.Test(t, func(t *testing.T) { // time passes while a peer is waited for
			p, _, r := newPutPair(t, DefaultConfig())
			st, err := p.net.Host(clientID).NewStream(t.Context(), serverID, ProtocolID)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write(raw)
			_ = st.CloseWrite()
			frames := oap.NewReader(st, oap.MaxFrame)
			for {
				if _, err := frames.Next(); err != nil {
					break
				}
			}
			_ = st.Reset()
			p.stop()
			r.mu.Lock()
			defer r.mu.Unlock()
			for root, part := range r.parts {
				if part.open {
					t.Errorf("%s is still open", root)
				}
				for g, ok := range part.groups {
					if end := min(len(part.data), (g+1)*b3.GroupSize); ok && (root != b3.Sum(data) ||
						!bytes.Equal(part.data[g*b3.GroupSize:end], data[g*b3.GroupSize:end])) {
						t.Errorf("group %d of %s is wrong", g, root)
					}
				}
			}
			if r.closed != len(r.offers) {
				t.Errorf("%d of %d puts are closed", r.closed, len(r.offers))
			}
		})
	})
}
