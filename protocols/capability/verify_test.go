package capability

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	macaroon "gopkg.in/macaroon.v2"

	"allium/protocols/status"
)

// TestCaveats: each kind, allowed and refused, and that all of a kind must hold.
func TestCaveats(t *testing.T) {
	t.Parallel()
	hex := object.String()
	bare := Request{Op: Drain, Method: "POST"}
	for _, c := range []struct {
		caveats []string
		ask     Request
		want    Refusal // empty: allowed
	}{
		{nil, put(), ""},
		{[]string{"op in put"}, put(), ""},
		{[]string{"op in get,put,pin"}, put(), ""},
		{[]string{"op in get,pin"}, put(), WrongOp},
		{[]string{"op in putt"}, put(), WrongOp},
		{[]string{"op in get,put", "op in get"}, put(), WrongOp},
		{[]string{"op in get,put", "op in put,pin"}, put(), ""},
		{[]string{"obj ^= b3:"}, put(), ""},
		{[]string{"obj ^= " + hex[:5]}, put(), ""},
		{[]string{"obj ^= " + hex}, put(), ""},
		{[]string{"obj ^= " + hex[:66] + other(hex[66])}, put(), WrongObject},
		{[]string{"obj ^= " + hex[:9], "obj ^= b3:" + other(hex[3])}, put(), WrongObject},
		{[]string{"obj ^= b3:"}, bare, WrongObject},
		{[]string{"name ^= docs."}, Request{Op: Get, Name: "docs.example"}, ""},
		{[]string{"name ^= docs."}, Request{Op: Get, Name: "doc"}, WrongName},
		{[]string{"name ^= docs."}, put(), WrongName},
		{[]string{"method in GET,PUT"}, put(), ""},
		{[]string{"method in GET,put"}, put(), WrongMethod},
		{[]string{"method in GET,PUT", "method in GET"}, put(), WrongMethod},
		{[]string{"bytes <= 1000"}, put(), ""},
		{[]string{"bytes <= 999"}, put(), TooManyBytes},
		{[]string{"bytes <= 10MiB", "bytes <= 1KB", "bytes <= 1KiB"}, put(), ""},
		{[]string{"bytes <= 10MiB", "bytes <= 100"}, put(), TooManyBytes},
		{[]string{"bytes <= 0"}, bare, ""},
		{[]string{"aud = " + self}, put(), ""},
		{[]string{"aud = 12D3KooWOther"}, put(), WrongNode},
		{[]string{"aud = " + self, "aud = 12D3KooWOther"}, put(), WrongNode},
		{[]string{"obj ^= " + hex}, below(), ""},
		{[]string{"obj ^= " + hex[:66]}, below(), WrongObject},
		{[]string{"obj ^= b3:"}, below(), WrongObject},
		{[]string{"obj ^= b3:", "obj ^= " + hex}, below(), WrongObject},
		{[]string{"op in pin"}, below(), ""},
		{[]string{"label = photos"}, put(), ""},
		{[]string{"label = photos"}, labelled("photos"), ""},
		{[]string{"label = photos"}, labelled("photo"), WrongLabel},
		{[]string{"label = photos"}, labelled("Photos"), WrongLabel},
		{[]string{"label = photos", "label = photos"}, labelled("photos"), ""},
		{[]string{"label = photos", "label = docs"}, labelled("photos"), WrongLabel},
		{[]string{"label = photos", "label = docs"}, put(), WrongLabel},
		{[]string{"label = photos"}, bare, ""},
		{nil, labelled("photos"), ""},
		{[]string{"rate <= 5"}, put(), ""},
		{[]string{"exp < " + start.Add(-time.Second).Format(time.RFC3339)}, put(), Expired},
		{[]string{"exp < " + start.Format(time.RFC3339)}, put(), Expired},
		{[]string{"exp < " + start.Add(time.Second).Format(time.RFC3339)}, put(), ""},
	} {
		v, r, _ := newVerifier(t)
		token, err := Attenuate(mint(t, r, inAnHour), caveats(t, c.caveats...)...)
		if err != nil {
			t.Fatal(err)
		}
		g, err := v.Verify(token, c.ask)
		if got := RefusalOf(err); c.want != "" && got != string(c.want) || c.want == "" && err != nil {
			t.Errorf("%v of %+v: %v (%s), want %q", c.caveats, c.ask, err, got, c.want)
		}
		if err != nil && g != (Grant{}) {
			t.Errorf("%v: refused, and granted %+v", c.caveats, g)
		}
	}
}

// other is a hex digit that is not d.
func other(d byte) string {
	if d == '0' {
		return "1"
	}
	return "0"
}

// TestGrant: what is left is the tightest of each kind.
func TestGrant(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	soon := start.Add(time.Minute)
	token := mint(t, r, inAnHour, "exp < "+soon.Format(time.RFC3339), "bytes <= 1MiB",
		"bytes <= 2MiB", "label = photos")
	info, err := Inspect(token)
	if err != nil {
		t.Fatal(err)
	}
	ask := put()
	ask.Bytes = -1 // not known yet
	g, err := v.Verify(token, ask)
	if want := (Grant{ID: info.ID, Branch: info.Branch, KeyID: 1, Expires: soon, MaxBytes: 1 << 20,
		Label: "photos"}); err != nil || g != want || len(g.Branch) != 32 {
		t.Errorf("%+v, %v", g, err)
	}
	if g, err := v.Verify(mint(t, r, inAnHour), put()); err != nil || g.MaxBytes != -1 || g.Label != "" {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestRefused: every way in which a token is none, with its outcome.
func TestRefused(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	enc := func(m *macaroon.Macaroon) string { return base64.RawURLEncoding.EncodeToString(raw(t, m)) }
	with := func(caveats ...string) string {
		return enc(forge(t, r, goodID(), "", append([]string{inAnHour}, caveats...)...))
	}
	id := func(change func(*identity)) string {
		i := identity{kid: 1, nonce: nonce{9}, issued: start.Unix()}
		change(&i)
		return enc(forge(t, r, i.bytes(), "", inAnHour))
	}
	third := forge(t, r, goodID(), "", inAnHour)
	if err := third.AddThirdPartyCaveat([]byte("key"), []byte("a third party"),
		"https://elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	v1, err := macaroon.New(r.keys[0].secret[:], []byte("text"), "", macaroon.V1)
	if err != nil {
		t.Fatal(err)
	}
	json, err := forge(t, r, goodID(), "", inAnHour).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	good := mint(t, r, inAnHour, "op in put")
	plain := raw(t, forge(t, r, goodID(), "", inAnHour))
	bits := append([]byte{}, plain...)
	bits[len(bits)-1] ^= 1
	otherID := append([]byte{}, plain...)
	otherID[idStart+6] ^= 1
	for name, c := range map[string]struct {
		token   string
		want    Refusal
		outcome status.Outcome
	}{
		"empty":   {"", Malformed, status.Unauthenticated},
		"text":    {"letmein", Malformed, status.Unauthenticated},
		"padding": {good + "=", Malformed, status.Unauthenticated},
		"standard base64": {base64.StdEncoding.EncodeToString([]byte{2, 2, 29, 251, 255}), Malformed,
			status.Unauthenticated},
		"line break":      {good[:10] + "\n" + good[10:], Malformed, status.Unauthenticated},
		"cut":             {good[:len(good)-4], Malformed, status.Unauthenticated},
		"something after": {good + "AAAA", Malformed, status.Unauthenticated},
		"twice": {base64.RawURLEncoding.EncodeToString(append(append([]byte{}, plain...), plain...)), Malformed,
			status.Unauthenticated},
		"version 1": {enc(v1), Malformed, status.Unauthenticated},
		"JSON":      {base64.RawURLEncoding.EncodeToString(json), Malformed, status.Unauthenticated},
		"location": {enc(forge(t, r, goodID(), "https://here.example", inAnHour)), Malformed,
			status.Unauthenticated},
		"third party": {enc(third), Malformed, status.Unauthenticated},
		"another id":  {enc(forge(t, r, []byte("me"), "", inAnHour)), Malformed, status.Unauthenticated},
		"long id":     {enc(forge(t, r, append(goodID(), 0), "", inAnHour)), Malformed, status.Unauthenticated},
		"id of version 2": {enc(forge(t, r, append([]byte{2}, goodID()[1:]...), "", inAnHour)), Malformed,
			status.Unauthenticated},
		"33 caveats": {with(times(MaxCaveats, "bytes <= %d")...), Malformed, status.Unauthenticated},
		"over 4 KiB": {with(times(20, "name ^= "+strings.Repeat("x", 200)+"%d")...), Malformed,
			status.Unauthenticated},
		"another key": {enc(forge(t, newRing(t), goodID(), "",
			inAnHour)), BadSignature, status.Unauthenticated},
		"another signature":   {base64.RawURLEncoding.EncodeToString(bits), BadSignature, status.Unauthenticated},
		"another nonce":       {base64.RawURLEncoding.EncodeToString(otherID), BadSignature, status.Unauthenticated},
		"unknown key":         {id(func(i *identity) { i.kid = 2 }), UnknownKey, status.Unauthenticated},
		"key 0":               {id(func(i *identity) { i.kid = 0 }), UnknownKey, status.Unauthenticated},
		"from the future":     {id(func(i *identity) { i.issued += 301 }), Future, status.Unauthenticated},
		"from the far future": {id(func(i *identity) { i.issued = 1<<63 - 1 }), Future, status.Unauthenticated},
		"no expiry":           {enc(forge(t, r, goodID(), "", "op in put")), NoExpiry, status.Forbidden},
		"no caveat":           {enc(forge(t, r, goodID(), "")), NoExpiry, status.Forbidden},
		"unknown caveat":      {with("ip in 127.0.0.1"), UnknownCaveat, status.Forbidden},
		"empty caveat":        {with(""), UnknownCaveat, status.Forbidden},
		"binary caveat":       {with("op in \x00\xff"), UnknownCaveat, status.Forbidden},
		"another relation":    {with("op = put"), UnknownCaveat, status.Forbidden},
		"no value":            {with("op in"), UnknownCaveat, status.Forbidden},
		"space":               {with("op in put "), UnknownCaveat, status.Forbidden},
		"two spaces":          {with("op in  put"), UnknownCaveat, status.Forbidden},
		"capital":             {with("Op in put"), UnknownCaveat, status.Forbidden},
		"no time":             {enc(forge(t, r, goodID(), "", "exp < tomorrow")), UnknownCaveat, status.Forbidden},
		"unknown before":      {enc(forge(t, r, goodID(), "", "x = y", inAnHour)), UnknownCaveat, status.Forbidden},
	} {
		g, err := v.Verify(c.token, put())
		if RefusalOf(err) != string(c.want) || status.Of(err) != c.outcome || g != (Grant{}) {
			t.Errorf("%s: %+v, %v (%s %s), want %s %s", name, g, err, status.Of(err), RefusalOf(err), c.outcome, c.want)
		}
		if err != nil && len(c.token) > 40 && strings.Contains(err.Error(), c.token[40:]) {
			t.Errorf("%s: the error has the token: %v", name, err)
		}
	}
	for _, near := range []string{
		id(func(i *identity) { i.issued += 300 }),
		id(func(i *identity) { i.issued = 0 }),
		with(times(MaxCaveats-1, "bytes <= 100%d")...),
	} {
		if _, err := v.Verify(near, put()); err != nil {
			t.Errorf("within the bounds: %v", err)
		}
	}
}

// TestSignatureFirst: what a caveat says does not show before the signature
// over it holds.
func TestSignatureFirst(t *testing.T) {
	t.Parallel()
	v, _, _ := newVerifier(t)
	elsewhere := newRing(t)
	for _, c := range [][]string{{inAnHour, "op in get"}, {"exp < 2001-01-01T00:00:00Z"}, {"no such caveat"}, nil} {
		m := forge(t, elsewhere, goodID(), "", c...)
		if _, err := v.Verify(base64.RawURLEncoding.EncodeToString(raw(t, m)),
			put()); RefusalOf(err) != string(BadSignature) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestOneEncoding: the same macaroon written in another way is none, so that
// one capability is one text.
func TestOneEncoding(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	m := forge(t, r, goodID(), "", inAnHour)
	p := raw(t, m)
	body := idStart + idSize + 1
	n := len(inAnHour)
	spell := func(parts ...[]byte) string {
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		var again macaroon.Macaroon
		if err := again.UnmarshalBinary(all); err != nil || !again.Equal(m) && again.Location() == "" {
			t.Fatalf("the library reads something else: %v", err)
		}
		return base64.RawURLEncoding.EncodeToString(all)
	}
	if _, err := v.Verify(spell(p), put()); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"a long length":           spell(p[:body+1], []byte{byte(n) | 0x80, 0}, p[body+2:]),
		"a long type":             spell(p[:body], []byte{fieldID | 0x80, 0}, p[body+1:]),
		"a location":              spell(p[:1], []byte{1, 1, 'x'}, p[1:]),
		"a third party of nobody": spell(p[:body+2+n], []byte{4, 0}, p[body+2+n:]),
	} {
		if _, err := v.Verify(token, put()); RefusalOf(err) != string(Malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := base64.RawURLEncoding.EncodeToString(p)
	if len(p)%3 != 0 {
		last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", text[len(text)-1])
		loose := text[:len(text)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last|1])
		if _, err := v.Verify(loose, put()); RefusalOf(err) != string(Malformed) {
			t.Errorf("bits that are not used: %v", err)
		}
	}
}

// TestRevoked: what is revoked ends with all that was made of it.
func TestRevoked(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	token, bystander := mint(t, r, inAnHour), mint(t, r, inAnHour)
	child, err := Attenuate(token, caveats(t, "op in put", "exp < "+start.Add(time.Minute).Format(time.RFC3339))...)
	if err != nil {
		t.Fatal(err)
	}
	info, err := Inspect(token)
	if err != nil {
		t.Fatal(err)
	}
	byToken, err := RevokeToken(child)
	if err != nil {
		t.Fatal(err)
	}
	byID, err := RevokeID(info.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []Revocation{byToken, byID} {
		revoked, err := Revocations{}.Revoke(start, by)
		if err != nil || by.String() != info.ID {
			t.Fatal(by, err)
		}
		v.Set(r, revoked)
		for _, gone := range []string{token, child} {
			if _, err := v.Verify(gone, put()); RefusalOf(err) != string(Revoked) {
				t.Errorf("%v", err)
			}
		}
		if _, err := v.Verify(bystander, put()); err != nil {
			t.Error(err)
		}
	}
	revoked, err := Revocations{}.Revoke(start, RevokeKey(1))
	if err != nil {
		t.Fatal(err)
	}
	v.Set(r, revoked)
	if _, err := v.Verify(bystander, put()); RefusalOf(err) != string(Revoked) {
		t.Error(err)
	}

	// The line of the token stays as long as the original may live, which is
	// longer than what was revoked by.
	list, err := Revocations{}.Revoke(start, byToken)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]int{30 * time.Minute: 2, time.Hour + clockSlack + time.Second: 1} {
		list, err := list.Revoke(start.Add(after), RevokeKey(9))
		if err != nil || list.Len() != want {
			t.Errorf("after %s there are %d lines, %v; want %d", after, list.Len(), err, want)
		}
	}
}

// TestRotation: a new key mints, the old ones verify until they are retired.
func TestRotation(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	old := mint(t, r, inAnHour)
	if _, err := r.Retire(1); status.Of(err) != status.Conflict {
		t.Errorf("the only key was retired: %v", err)
	}
	two, err := r.Rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	young := mint(t, two, inAnHour)
	v.Set(two, Revocations{})
	for token, kid := range map[string]uint32{old: 1, young: 2} {
		if g, err := v.Verify(token, put()); err != nil || g.KeyID != kid {
			t.Errorf("%+v, %v", g, err)
		}
	}
	if _, err := two.Retire(2); status.Of(err) != status.Conflict {
		t.Errorf("the current key was retired: %v", err)
	}
	if _, err := two.Retire(3); status.Of(err) != status.NotFound {
		t.Errorf("%v", err)
	}
	one, err := two.Retire(1)
	if err != nil {
		t.Fatal(err)
	}
	v.Set(one, Revocations{})
	if _, err := v.Verify(old, put()); RefusalOf(err) != string(UnknownKey) {
		t.Error(err)
	}
	if _, err := v.Verify(young, put()); err != nil {
		t.Error(err)
	}
	if len(r.Keys()) != 1 || len(two.Keys()) != 2 || !one.Keys()[0].Current || one.Keys()[0].ID != 2 {
		t.Errorf("%v %v %v", r.Keys(), two.Keys(), one.Keys())
	}
	three, err := one.Rotate(start)
	if err != nil || three.Keys()[1].ID != 3 {
		t.Errorf("%v, %v", three.Keys(), err)
	}
	full := Ring{}
	for range maxKeys {
		if full, err = full.Rotate(start); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := full.Rotate(start); status.Of(err) != status.Conflict {
		t.Errorf("%v", err)
	}
	if again, err := ParseRing(full.Text()); err != nil || len(again.keys) != maxKeys {
		t.Errorf("%v, %v", again, err)
	}
}

// TestNoKey: without a ring nothing is granted.
func TestNoKey(t *testing.T) {
	t.Parallel()
	v := NewVerifier(self, nil, nil)
	if _, err := v.Verify(mint(t, newRing(t), inAnHour), put()); RefusalOf(err) != string(UnknownKey) {
		t.Error(err)
	}
	if _, err := (Ring{}).Mint(start, caveat(t, inAnHour)); status.Of(err) != status.NotFound {
		t.Error(err)
	}
}

// TestMintBounds: Mint and Attenuate make nothing that Verify does not take.
func TestMintBounds(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	past := "exp < " + start.Format(time.RFC3339)
	long := times(19, "name ^= "+strings.Repeat("x", 240)+"%d")
	for name, list := range map[string][]string{
		"no expiry": {"op in put"}, "expired": {inAnHour, past},
		"33 caveats": append(times(MaxCaveats, "bytes <= %d"), inAnHour), "long": append(long, inAnHour),
	} {
		if token, err := r.Mint(start, caveats(t, list...)...); status.Of(err) != status.BadRequest || token != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := mint(t, r, inAnHour)
	for name, list := range map[string][]string{"33 caveats": times(MaxCaveats, "bytes <= %d"), "long": long} {
		if token, err := Attenuate(good, caveats(t, list...)...); status.Of(err) != status.BadRequest || token != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Attenuate("nonsense"); RefusalOf(err) != string(Malformed) {
		t.Error(err)
	}
}

// TestNoSecretShows: printing what holds a key does not print the key.
func TestNoSecretShows(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	secret := r.keys[0].secret[:]
	held := struct{ ring Ring }{r}
	for _, s := range []string{
		fmt.Sprintf("%v %+v %#v %s", r, r, r, r), fmt.Sprintf("%v %+v %#v", held, held, held),
		fmt.Sprintf("%v %+v", v, v.state.Load()), fmt.Sprintf("%+v", r.Keys()),
	} {
		for _, part := range []string{fmt.Sprintf("%x", secret[:4]), fmt.Sprintf("%d", secret[:4])[1:8],
			base64.RawURLEncoding.EncodeToString(secret)[:8], strings.TrimPrefix(fmt.Sprintf("%#v", secret[:3]),
				"[]byte")} {
			if strings.Contains(s, strings.Trim(part, "{}")) {
				t.Errorf("%q has a part of the secret: %q", s, part)
			}
		}
	}
}
