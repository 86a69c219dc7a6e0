package session_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// verifier gives a verifier of the package the context that a session passes.
type verifier struct{ *capability.Verifier }

func (v verifier) Verify(_ context.Context, token string, ask capability.Request) (capability.Grant, error) {
	return v.Verifier.Verify(token, ask)
}

// TestCapability: a handler sees a capability that was verified for what the request does, or none.
func TestCapability(t *testing.T) {
	object := b3.Sum([]byte("an object"))
	for name, tc := range map[string]struct {
		caveats []string // of the token; nil: no token
		change  func(cap []byte) []byte
		proto   uint16 // 0: index, which is authorized
		op      string
		want    status.Outcome
		detail  capability.Refusal
		granted bool // the handler saw a grant
	}{
		"none":  {want: status.OK},
		"valid": {caveats: []string{"op in get"}, want: status.OK, granted: true},
		"for this object": {caveats: []string{"op in get", "obj ^= " + object.String()},
			want: status.OK, granted: true},
		"other object": {
			caveats: []string{"op in get", "obj ^= " + b3.Sum(nil).String()},
			want:    status.Forbidden, detail: capability.WrongObject,
		},
		"other operation": {caveats: []string{"op in put"}, want: status.Forbidden, detail: capability.WrongOp},
		"changed": {
			caveats: []string{"op in get"}, change: func(p []byte) []byte { p[len(p)-1] ^= 1; return p },
			want: status.Unauthenticated, detail: capability.BadSignature,
		},
		"no token at all": {
			caveats: []string{"op in get"}, change: func([]byte) []byte { return []byte("macaroon") },
			want: status.Unauthenticated, detail: capability.Malformed,
		},
		"the largest": {
			caveats: []string{"op in get"}, change: func([]byte) []byte { return make([]byte, oap.MaxCap) },
			want: status.Unauthenticated, detail: capability.Malformed,
		},
		"too large to send": {
			caveats: []string{"op in get"}, change: func([]byte) []byte { return make([]byte, oap.MaxCap+1) },
			want: status.FrameOversize,
		},
		"a protocol that verifies none": {
			caveats: []string{"op in get"}, proto: oap.ProtoRepair, want: status.Unauthenticated,
		},
		"what it does is not known": {caveats: []string{"op in get"}, op: "dance", want: status.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ring, err := capability.Ring{}.Rotate(time.Now())
				if err != nil {
					t.Fatal(err)
				}
				v := capability.NewVerifier("a", nil, nil)
				v.Set(ring, capability.Revocations{})
				called := 0
				handle := func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
					called++
					return session.Response{Payload: fmt.Appendf(nil, `{"granted":%t}`, r.Grant != nil)}
				}
				net := testkit.NewNetwork(testkit.Options{})
				defer net.Close()
				a, err := session.New(session.DefaultConfig(),
					session.Deps{Host: net.Host("a"), Capabilities: verifier{v}})
				if err != nil {
					t.Fatal(err)
				}
				a.Handle(oap.ProtoIndex, handle)
				a.Handle(oap.ProtoRepair, handle)
				a.Authorize(oap.ProtoIndex, func(r *session.Request) (capability.Request, error) {
					if r.Op != "x" {
						return capability.Request{}, status.Errorf(status.Unsupported, "unknown op %q", r.Op)
					}
					return capability.Request{Op: capability.Get, Object: object}, nil
				})
				defer run(t, a)()
				b := start(t, net.Host("b"), session.DefaultConfig(), nil)
				defer b.stop()

				op, m := "x", session.Message{Proto: oap.ProtoIndex}
				if tc.op != "" {
					op = tc.op
				}
				if tc.proto != 0 {
					m.Proto = tc.proto
				}
				m.Payload = fmt.Appendf(nil, `{"op":%q}`, op)
				if tc.caveats != nil {
					m.Cap = mint(t, ring, tc.caveats)
				}
				if tc.change != nil {
					m.Cap = tc.change(m.Cap)
				}
				p, err := b.CallWith(t.Context(), "a", m)
				report := status.ReportOf(err)
				if status.Of(err) != tc.want || report.Detail != string(tc.detail) {
					t.Fatalf("got %s %q, %v; want %s %q", status.Of(err), report.Detail, err, tc.want, tc.detail)
				}
				if ran := called > 0; ran != (tc.want == status.OK) {
					t.Errorf("the handler ran: %t", ran)
				}
				if granted := strings.Contains(string(p), "true"); granted != tc.granted {
					t.Errorf("the handler answered %s, want granted %t", p, tc.granted)
				}
				if _, err := b.Call(t.Context(), "a", oap.ProtoIndex, []byte(`{"op":"x"}`)); err != nil {
					t.Errorf("the session does not go on: %v", err)
				}
			})
		})
	}
}

// mint returns a capability for an hour in the form that peers send.
func mint(t *testing.T, ring capability.Ring, caveats []string) []byte {
	t.Helper()
	var parsed []capability.Caveat
	for _, s := range append(caveats, "exp < "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)) {
		c, err := capability.ParseCaveat(s)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, c)
	}
	token, err := ring.Mint(time.Now(), parsed...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
