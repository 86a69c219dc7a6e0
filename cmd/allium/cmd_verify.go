package main

import (
	"context"
	"errors"
	"fmt"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/text"
	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

// verify prints each bad object when it is found, then open damage of the store if
// key is empty, which is the whole store, and a summary at the end.
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
		if err := a.print(v, text.Verified(v)); err != nil {
			return err
		}
	}
	damage, err := a.openDamage(ctx, s, key)
	if err != nil {
		return err
	}
	finish()
	if bad > 0 {
		are := "are"
		if bad == 1 {
			are = "is"
		}
		return errors.Join(failure.Found(status.Errorf(status.Corrupt, "%s of %d %s damaged or missing, and not served; "+
			"fetch again with `allium verify --repair` or `allium get`", text.Plural(bad, "object"), good+bad, are)), damage)
	}
	if damage != nil || a.quiet || a.json {
		return damage
	}
	mended := ""
	if repaired > 0 {
		mended = fmt.Sprintf(" (%d of them repaired)", repaired)
	}
	return a.print(nil, fmt.Sprintf("%s, %s: every byte proved%s",
		text.Plural(good, "object"), limits.Bytes(bytes).Human(), mended))
}

// damageOf is a line of JSON about damage, among lines about objects.
type damageOf struct {
	Damage api.Damage `json:"damage"`
}

// openDamage prints the open damage of the store and returns it as the error open.
// It does nothing unless key is empty, which is the whole store.
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
		if err := a.print(damageOf{d}, text.Damage(d)); err != nil {
			return nil, err
		}
	}
	return damageOpen(r), nil
}
