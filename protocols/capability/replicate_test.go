package capability

import (
	"slices"
	"testing"
	"time"
)

// TestReplicate: only a token that a node minted for it alone, for one node and for some
// minutes, opens the cluster.
func TestReplicate(t *testing.T) {
	t.Parallel()
	expires := func(d time.Duration) string { return "exp < " + start.Add(d).Format(time.RFC3339) }
	soon, me := expires(ReplicateLife), "aud = "+self
	long := expires(ReplicateLife + clockSlack + time.Second)
	one := "obj ^= " + object.String()
	for _, c := range []struct {
		minted, added []string
		want          Refusal
	}{
		{[]string{"op in replicate", soon, me}, nil, ""},
		{[]string{"op in replicate", soon, me, one}, nil, ""},
		{[]string{"op in replicate", inAnHour}, []string{soon, me}, ""},
		{[]string{"op in replicate", soon, me, "obj ^= b3:" + other(object.String()[3])}, nil, WrongObject},
		{[]string{"op in replicate", soon, "aud = 12D3KooWOther"}, nil, WrongNode},
		{[]string{"op in replicate", soon}, nil, WrongNode},
		{[]string{"op in replicate", long, me}, nil, TooLong},
		{[]string{"op in replicate,put", soon, me}, nil, WrongOp},
		{[]string{"op in put", soon, me}, nil, WrongOp},
		{[]string{"op in put", inAnHour}, []string{"op in replicate", soon, me}, WrongOp},
		// A token for everything cannot be narrowed to one for this.
		{[]string{inAnHour}, []string{soon, me}, WrongOp},
		{[]string{inAnHour}, []string{"op in replicate", soon, me}, WrongOp},
		{[]string{soon, me, "op in replicate"}, nil, WrongOp},
	} {
		v, r, _ := newVerifier(t)
		token, err := Attenuate(mint(t, r, c.minted...), caveats(t, c.added...)...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(token, Request{Op: Replicate, Object: object, Method: "put", Bytes: 1})
		if got := RefusalOf(err); c.want != "" && got != string(c.want) || c.want == "" && err != nil {
			t.Errorf("%v + %v: %v (%s), want %q", c.minted, c.added, err, got, c.want)
		}
		if _, err := v.Verify(token, Request{Op: Put, Object: object, Method: "put"}); c.want == "" && err == nil {
			t.Errorf("%v also allows what people do", c.minted)
		}
	}
	if slices.Contains(Ops(), Replicate) || Replicate.Known() {
		t.Error("people can mint it")
	}
}
