package main

import (
	"context"
	"fmt"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

// verify prints bad objects as they are found, then open damage of the store if
// all of it is verified, and a summary at the end.
func (a *app) verify(ctx context.Context, s api.Store, key string, o api.VerifyOptions) error {
	report, finish := a.progress("verifying")
	defer finish()
	var good, bad, repaired, bytes int64
	for v, err := range s.Verify(ctx, key, o) {
		if err != nil {
			return err
		}
		switch {
		case v.Error != nil && !v.Again:
			bad++
		case v.Error == nil:
			good++
			bytes += v.Size
			if report != nil {
				report(api.Progress{Objects: good, Bytes: bytes})
			}
		}
		if v.Repaired {
			repaired++
		}
		if err := a.print(v, verifiedLine(v)); err != nil {
			return err
		}
	}
	damage, err := a.openDamage(ctx, s, key)
	if err != nil {
		return err
	}
	finish()
	if bad > 0 {
		err := status.Errorf(status.Corrupt, "%d of %d objects are damaged or missing and are not served; fetch them again with `allium verify --repair` or `allium get`", bad, good+bad)
		if damage != nil {
			err = status.Errorf(status.Corrupt, "%w; %w", err, damage)
		}
		return err
	}
	if damage != nil || a.quiet || a.json {
		return damage
	}
	mended := ""
	if repaired > 0 {
		mended = fmt.Sprintf(" (%d of them repaired)", repaired)
	}
	return a.print(nil, fmt.Sprintf("%d objects, %s: every byte proved%s", good, limits.Bytes(bytes).Human(), mended))
}

// verifiedLine is one object for people, empty for a whole one.
func verifiedLine(v api.Verified) string {
	where := ""
	if v.Pin != nil {
		where = ", pinned"
		if v.Path != "" {
			where = fmt.Sprintf(", %s/%s of a pin", v.Pin.Root, v.Path)
		}
	}
	switch {
	case v.Repaired:
		return fmt.Sprintf("%s repaired: fetched again and every byte proved%s", v.Root, where)
	case v.Error != nil && v.Again:
		return fmt.Sprintf("%s %s%s", v.Root, v.Error.Reason, where)
	case v.Error != nil:
		return fmt.Sprintf("%s %s%s: %s", v.Root, v.Error.Reason, where, v.Error.Message)
	}
	return ""
}

// damageOf is a line of JSON about damage among those about objects.
type damageOf struct {
	Damage api.Damage `json:"damage"`
}

// openDamage prints the open damage of the whole store, an empty key, and
// returns it as an error.
func (a *app) openDamage(ctx context.Context, s api.Store, key string) (open, err error) {
	if key != "" {
		return nil, nil
	}
	r, err := s.Damage(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range r.Damage {
		if d.State != "open" {
			continue
		}
		if err := a.print(damageOf{d}, damageLine(d)); err != nil {
			return nil, err
		}
	}
	return damageOpen(r), nil
}
