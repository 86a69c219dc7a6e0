package store

import "allium/store/upload"

// uploadInfo is what callers see of r.
func uploadInfo(r upload.Record) Upload {
	if r.ID == (upload.ID{}) {
		return Upload{}
	}
	u := Upload{ID: r.ID.String(), Options: r.Options, Offset: r.Offset, Expires: r.Expires.Time()}
	if r.Done {
		u.Root, u.New = r.Root, r.IsNew
	}
	return u
}
