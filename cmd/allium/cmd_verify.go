package main

import (
	"context"
	"fmt"

	"allium/gateway/client"
	"allium/node"
	"allium/protocols/status"
)

// verify prints bad objects as they are found and a summary at the end.
func (a *app) verify(ctx context.Context, s client.Store, key string, o client.VerifyOptions) error {
	report, finish := a.progress("verifying")
	defer finish()
	var good, bad, repaired, bytes int64
	for v, err := range s.Verify(ctx, key, o) {
		if err != nil {
			return err
		}
		if v.Error == nil {
			good++
			bytes += v.Size
			if report != nil {
				report(client.Progress{Objects: good, Bytes: bytes})
			}
		} else {
			bad++
		}
		human := ""
		if v.Repaired {
			repaired++
			human = fmt.Sprintf("%s repaired: fetched again and every byte proved", v.Root)
		}
		if v.Error != nil {
			human = fmt.Sprintf("%s %s: %s", v.Root, v.Error.Reason, v.Error.Message)
		}
		if err := a.print(v, human); err != nil {
			return err
		}
	}
	finish()
	if bad > 0 {
		return status.Errorf(status.Corrupt, "%d of %d objects are damaged or missing and are not served; fetch them again with `allium verify --repair` or `allium get`", bad, good+bad)
	}
	if a.quiet || a.json {
		return nil
	}
	mended := ""
	if repaired > 0 {
		mended = fmt.Sprintf(" (%d of them repaired)", repaired)
	}
	return a.print(nil, fmt.Sprintf("%d objects, %s: every byte proved%s", good, node.HumanSize(bytes), mended))
}
