package local

import (
	"context"

	"allium/gateway/api"
	"allium/store"
	"allium/store/meta"
)

// Damage implements api.Store. It first closes the damage of objects that came back. It lists
// the damaged objects too.
func (a *stored) Damage(ctx context.Context) (api.DamageReport, error) {
	if _, err := a.st.SettleDamage(ctx, false); err != nil {
		return api.DamageReport{}, err
	}
	objects, err := a.st.DamagedObjects(ctx)
	if err != nil {
		return api.DamageReport{}, err
	}
	r := damageReport(a.st, append(a.st.Damage(), objects...))
	r.Objects = len(objects)
	return r, nil
}

// AcceptDamage implements api.Store.
func (a *stored) AcceptDamage(ctx context.Context) (api.DamageReport, error) {
	accepted, err := a.st.AcceptDamage(ctx)
	if err != nil {
		return api.DamageReport{}, err
	}
	return damageReport(a.st, accepted), nil
}

// damageReport reports the open damage of st, and list.
func damageReport(st *store.Store, list []meta.Damage) api.DamageReport {
	r := api.DamageReport{Damage: []api.Damage{}}
	r.Open, r.Unknown = st.OpenDamage()
	for _, d := range list {
		r.Damage = append(r.Damage, api.Damage{
			Kind: string(d.Kind), State: string(d.State), File: d.File, Offset: d.Offset, Length: d.Length,
			Left: d.Left, Roots: d.Roots, Cause: d.Reason, Found: d.Found, Ended: d.Ended,
		})
	}
	return r
}
