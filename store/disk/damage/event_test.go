package damage

import (
	"testing"

	"allium/store/meta"
)

// TestOldEvents: a list of a time when Offset had the time of damage of a whole file is read as it is meant.
func TestOldEvents(t *testing.T) {
	for _, c := range []struct {
		kind          meta.DamageKind
		offset, event int64
	}{
		{meta.DamageIndex, 0, 1 << 60}, {meta.DamageFormat, 0, 1 << 60}, {meta.DamageLog, 1 << 60, 0},
	} {
		line, err := encodeDamage(meta.Damage{Kind: c.kind, Offset: 1 << 60, Length: 2})
		if err != nil {
			t.Fatal(err)
		}
		var got meta.Damage
		if err := decodeDamage(line, &got); err != nil || got.Offset != c.offset || got.Event != c.event ||
			got.Length == 0 != (c.event > 0) {
			t.Errorf("%s: %+v, %v", c.kind, got, err)
		}
	}
}
