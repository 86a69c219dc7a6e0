package dht

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/delimited"
	"allium/protocols/dht/messages"
	"allium/protocols/name"
	"allium/protocols/status"
)

// serveOnly makes a host answer every request of the provider exchange with one record, and take
// none.
func (sn *simNet) serveOnly(i int, rec name.Signed) {
	sn.Hosts[i].SetStreamHandler(ProviderID, func(s network.Stream) {
		defer s.Close()
		raw, err := messages.Response{Code: 200, Providers: []messages.Provider{{Envelope: rec.Envelope}}}.Encode()
		if err == nil {
			_ = delimited.Write(s, raw)
		}
	})
}

// TestNamesOld: an old record that all holders but one return does not win at a node that has just
// started and has never seen the name. It takes the highest record of the three holders, and gives it
// to the holder that was behind. Afterwards all holders return the old one: that is stale, and nothing
// of it is believed.
func TestNamesOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			hosts, fresh         = 8, 7
			behind, liar, holder = 1, 2, 3
		)
		sn := newSimNet(t, hosts)
		defer sn.close()
		services := make([]*Service, hosts)
		for i := range fresh {
			s, stop := sn.start(i, nil)
			defer stop()
			services[i] = s
		}
		time.Sleep(time.Minute)
		old, newest := sn.ids[0].nameRecord(t, "blog", 1, "old"), sn.ids[0].nameRecord(t, "blog", 2, "new")
		for i, rec := range map[int]name.Signed{behind: old, holder: newest} {
			if err := services[i].names.Put(rec, "", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		sn.serveOnly(liar, old)

		s, stop := sn.start(fresh, nil)
		defer stop()
		time.Sleep(time.Minute)
		if n := s.NameFloor(newest.Name); n != 0 {
			t.Fatalf("the new node knows number %d already", n)
		}
		if v, err := s.FindName(t.Context(), newest.Name, false, nil); err != nil || v.Seq() != 2 || v.Equivocates() {
			t.Errorf("a new node found %v, %v", v.Records(), err)
		}
		time.Sleep(mendTimeout)
		if n := holding([]*Service{services[behind]}, newest.Name, 2); n != 1 {
			t.Error("the holder that was behind was not given the newer record")
		}

		// From now on every holder returns the old record.
		for _, i := range []int{behind, holder} {
			sn.serveOnly(i, old)
		}
		for _, all := range []bool{false, true} {
			v, err := s.FindName(t.Context(), newest.Name, all, nil)
			if v.Seq() != 0 || status.Of(err) != status.Stale {
				t.Errorf("a node that has seen the newer record (fresh %t) takes %v, %v", all, v.Records(), err)
			}
		}
	})
}
