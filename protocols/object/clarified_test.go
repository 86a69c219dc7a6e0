package object

import (
	"errors"
	"fmt"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

// quiet is a sink that counts.
type quiet struct{ items, ended int }

func (*quiet) Begin(int, int64) error      { return nil }
func (s *quiet) Item(int, b3.Proved) error { s.items++; return nil }
func (s *quiet) End(_ int, err error) error {
	s.ended++
	return err
}

// TestEmptyObjectWithoutAFrame: a server need not send the empty item.
func TestEmptyObjectWithoutAFrame(t *testing.T) {
	root := b3.Sum(nil)
	for _, proof := range []bool{false, true} {
		for _, claim := range []int64{0, 1} {
			net := testkit.NewNetwork(testkit.Options{})
			answerWith(t, net.Host(serverID), []oap.Frame{
				respond(1, oap.FlagStart, 0, fmt.Appendf(nil, `{"obj":"%s","size":%d}`, root, claim)),
				respond(1, oap.FlagEnd, 200, nil),
			})
			c, err := NewClient(DefaultConfig(), ClientDeps{Host: net.Host(clientID)})
			if err != nil {
				t.Fatal(err)
			}
			var s quiet
			err = c.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}, SizeProof: proof}, &s)
			if (err == nil) != (claim == 0) || err == nil && (s.items == 0 || s.ended != 1) {
				t.Errorf("size %d, proof %t: %v, %+v", claim, proof, err, s)
			}
			_ = c.Close()
			net.Close()
		}
	}
}

// TestResetCodesTravel: the code of a refusal arrives over QUIC and over yamux.
func TestResetCodesTravel(t *testing.T) {
	for _, transport := range []string{"quic", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			l := newLoopback(t, transport, DefaultConfig())
			st, err := l.from.NewStream(t.Context(), l.to.ID(), ProtocolID)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := EncodeFrame(oap.Frame{Header: oap.Header{Flags: oap.FlagReq | oap.FlagEnd,
				Proto:  oap.ProtoObject,
				CorrID: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Write(raw); err != nil {
				t.Fatal(err)
			}
			_, err = st.Read(make([]byte, 1))
			var reset *network.StreamError
			want := network.StreamErrorCode(oap.ReasonBadFlags.StreamErrorCode())
			if !errors.As(err, &reset) || !reset.Remote || reset.ErrorCode != want {
				t.Errorf("%v, want a reset with %#x", err, want)
			}
		})
	}
}
