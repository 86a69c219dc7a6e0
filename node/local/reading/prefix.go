package reading

import (
	"context"
	"strings"

	"allium/protocols/address"
	"allium/protocols/status"
)

// maxCandidates is the maximum number of addresses, of those that a prefix may stand for, that an error lists.
const maxCandidates = 10

// Canonical returns the key that a person's text stands for. The beginning of an address stands
// for the one object here that has it.
func (a *Reader) Canonical(ctx context.Context, text string) (string, error) {
	key, err := address.Canonical(text)
	if err != nil {
		return "", err
	}
	digits, path, ok := address.Prefix(key)
	if !ok {
		return key, nil
	}
	if a.opt.Prefixed == nil {
		return "", status.Errorf(status.BadAddress,
			"%s is the beginning of an address, and only a store knows how it goes on; write all 64 digits", digits)
	}
	found, err := a.opt.Prefixed(ctx, digits, maxCandidates+1)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", status.Errorf(status.NotFound,
			"nothing is stored here whose address begins with b3:%s; write all 64 digits to ask others for it", digits)
	case len(found) == 1:
		return strings.TrimSuffix(found[0].String()+"/"+path, "/"), nil
	}
	var list strings.Builder
	for i, root := range found {
		if i == maxCandidates {
			list.WriteString("\n  and more")
			break
		}
		list.WriteString("\n  " + root.String())
	}
	return "", status.Errorf(status.BadAddress, "b3:%s may be one of these; write more of its digits:%s", digits,
		list.String())
}
