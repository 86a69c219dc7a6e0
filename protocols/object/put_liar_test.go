package object

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestPutLiar lets the receiver answer wrongly: the client says that the peer broke the
// protocol or was too slow, stops sending, and keeps no stream and no goroutine.
func TestPutLiar(t *testing.T) {
	size := int64(10*b3.GroupSize + 5)
	answer := func(flags oap.Flags, code uint16, payload string) oap.Frame {
		return respond(1, flags, code, []byte(payload))
	}
	have := answer(oap.FlagStart, 0, `{"have":[]}`)
	stored := answer(oap.FlagEnd, 200, `{"stored":true}`)
	tooMany := make([][2]int64, maxRuns+1)
	for i := range tooMany {
		tooMany[i] = [2]int64{0, 1}
	}
	many, err := json.Marshal(wireGroups{tooMany})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		answers []oap.Frame
		reads   bool // whether the peer reads the items
		want    status.Outcome
		after   time.Duration // −1: it depends on the window
	}{
		{"nothing", nil, true, status.Timeout, DefaultConfig().ReadTimeout},
		{"nothing after the items", []oap.Frame{have}, true, status.Timeout, DefaultConfig().CommitTimeout},
		{"reads nothing", []oap.Frame{have}, false, status.Timeout, -1},
		{"stored without items", []oap.Frame{stored}, true, status.Upstream, 0},
		{"stored at once", []oap.Frame{have, stored}, false, status.Upstream, 0},
		{"not stored after all", []oap.Frame{have, answer(oap.FlagEnd, 200,
			`{"stored":false}`)}, false, status.Upstream, 0},
		{"begins twice", []oap.Frame{have, have}, false, status.Upstream, 0},
		{"no JSON", []oap.Frame{answer(oap.FlagStart, 0, `{"have"`)}, false, status.Upstream, 0},
		{"an unknown member", []oap.Frame{answer(oap.FlagStart, 0, `{"have":[],"x":1}`)}, false, status.Upstream, 0},
		{"a code", []oap.Frame{answer(oap.FlagStart, 200, `{"have":[]}`)}, false, status.Upstream, 0},
		{"too many ranges", []oap.Frame{answer(oap.FlagStart, 0, string(many))}, false, status.Upstream, 0},
		{"half a group", []oap.Frame{answer(oap.FlagStart, 0, `{"have":[[0,100]]}`)}, false, status.Upstream, 0},
		{"past the end", []oap.Frame{answer(oap.FlagStart, 0, fmt.Sprintf(`{"have":[[0,%d]]}`, size+1))}, false,
			status.Upstream, 0},
		{"in another order", []oap.Frame{answer(oap.FlagStart, 0, `{"have":[[131072,196608],[0,65536]]}`)}, false,
			status.Upstream, 0},
		{"refused early", []oap.Frame{have, answer(oap.FlagEnd, 507,
			`{"reason":"no_space"}`)}, false, status.NoSpace, 0},
		{"refused with a lie", []oap.Frame{have, answer(oap.FlagEnd, 500, ``)}, false, status.Upstream, 0},
		{"a request", []oap.Frame{{Header: oap.Header{Flags: oap.FlagReq, Proto: oap.ProtoObject, CorrID: 1}}}, false,
			status.Upstream, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := testkit.NewNetwork(testkit.Options{Window: 100 << 10})
				net.Host(serverID).SetStreamHandler(ProtocolID, func(st network.Stream) {
					r := oap.NewReader(st, oap.MaxFrame)
					r.SetItems(true)
					if _, err := r.Next(); err != nil {
						t.Error(err)
					}
					for _, f := range tc.answers {
						raw, err := encodeItems(f)
						if err != nil {
							t.Error(err)
						}
						_, _ = st.Write(raw)
					}
					for tc.reads {
						if _, err := r.Next(); err != nil {
							return
						}
					}
				})
				client, err := NewClient(DefaultConfig(), ClientDeps{Host: net.Host(clientID)})
				if err != nil {
					t.Fatal(err)
				}
				mine := newMemStore()
				root := mine.put(testData(int(size), 1))
				begin := time.Now()
				_, err = client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken)
				if status.Of(err) != tc.want || tc.after >= 0 && time.Since(begin) != tc.after {
					t.Errorf("%v after %s, want %s after %s", err, time.Since(begin), tc.want, tc.after)
				}
				if client.open() != 0 {
					t.Error("the stream is kept")
				}
				_ = client.Close()
				net.Close()
			})
		})
	}
}

// TestPutManyLiar is TestPutLiar for small objects: their outcomes are not mixed up.
func TestPutManyLiar(t *testing.T) {
	answer := func(flags oap.Flags, code uint16, payload string) oap.Frame {
		return respond(1, flags, code, []byte(payload))
	}
	wants := answer(oap.FlagStart, 0, "\x00\x01\x00")
	ok, end := answer(0, 200, ""), answer(oap.FlagEnd, 200, "")
	full := answer(oap.FlagEnd, 507, `{"reason":"no_space"}`)
	for _, tc := range []struct {
		name    string
		answers []oap.Frame
		want    status.Outcome
		errs    string
	}{
		{"the truth", []oap.Frame{wants, ok, end}, status.OK, "ok ok ok"},
		{"no space for the last", []oap.Frame{wants, ok, full}, status.OK, "ok ok no_space"},
		{"none is wanted", []oap.Frame{answer(oap.FlagEnd, 200, "\x01\x02\x01")}, status.OK, "ok not_allowed ok"},
		{"refused", []oap.Frame{full}, status.NoSpace, ""},
		{"refused after the wishes", []oap.Frame{wants, full}, status.NoSpace, ""},
		{"too few wishes", []oap.Frame{answer(oap.FlagStart, 0, "\x00\x01")}, status.Upstream, ""},
		{"an unknown wish", []oap.Frame{answer(oap.FlagStart, 0, "\x00\x01\x03")}, status.Upstream, ""},
		{"nothing wanted, no end", []oap.Frame{answer(oap.FlagStart, 0, "\x01\x01\x01")}, status.Upstream, ""},
		{"something wanted, the end", []oap.Frame{answer(oap.FlagEnd, 200, "\x01\x00\x01")}, status.Upstream, ""},
		{"an end too early", []oap.Frame{wants, end}, status.Upstream, ""},
		{"no end", []oap.Frame{wants, ok, ok}, status.Upstream, ""},
		{"wishes twice", []oap.Frame{wants, wants}, status.Upstream, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := testkit.NewNetwork(testkit.Options{})
				net.Host(serverID).SetStreamHandler(ProtocolID, func(st network.Stream) {
					r := oap.NewReader(st, oap.MaxFrame)
					r.SetItems(true)
					for i, f := range tc.answers {
						if i < 2 { // the request, the items
							if _, err := r.Next(); err != nil {
								t.Error(err)
							}
						}
						if err := oap.NewWriter(st, oap.MaxFrame).Write(f); err != nil {
							t.Error(err)
						}
					}
					_, _ = r.Next()
				})
				client, err := NewClient(DefaultConfig(), ClientDeps{Host: net.Host(clientID)})
				if err != nil {
					t.Fatal(err)
				}
				mine := newMemStore()
				var objs SmallObjects
				for i := range 3 {
					objs.Objs, objs.Sizes = append(objs.Objs, mine.put(testData(9, uint64(i)))), append(objs.Sizes, 9)
				}
				objs.Open =
					func(ctx context.Context, i int) (b3.Object, error) { return mine.OpenObject(ctx, objs.Objs[i]) }
				errs, err := client.PutMany(t.Context(), serverID, objs, withToken)
				var got []string
				for _, err := range errs {
					got = append(got, status.Of(err).String())
				}
				if status.Of(err) != tc.want || strings.Join(got, " ") != tc.errs {
					t.Errorf("%v, %v", err, errs)
				}
				_ = client.Close()
				net.Close()
			})
		})
	}
}

// TestPutRefusedOnTheWay refuses a large put after some groups, over real connections: the
// client learns why and not only that the stream is gone.
func TestPutRefusedOnTheWay(t *testing.T) {
	for _, transport := range []string{"tcp", "quic"} {
		t.Run(transport, func(t *testing.T) {
			var r *memReceiver
			l := newLoopbackWith(t, transport, DefaultConfig(), func(d *ServerDeps) {
				r = newMemReceiver(d.Store.(*memStore))
				r.script(nil, func(_ b3.Root, g int64) error {
					if g == 20 {
						return status.Errorf(status.NoSpace, "test receiver: full")
					}
					return nil
				})
				d.Receiver, d.Log = r, slog.New(slog.NewTextHandler(t.Output(), nil))
			})
			mine := newMemStore()
			root := mine.put(make([]byte, 1000*b3.GroupSize+1)) // more than any window
			for range 3 {
				_, err := l.client.Put(t.Context(), l.to.ID(), mine.mustOpen(t, root), withToken)
				if status.Of(err) != status.NoSpace {
					t.Error(err)
				}
			}
			r.script(nil, nil)
			if isNew, err := l.client.Put(t.Context(), l.to.ID(), mine.mustOpen(t, root), withToken); err != nil ||
				!isNew {
				t.Error(err)
			}
		})
	}
}
