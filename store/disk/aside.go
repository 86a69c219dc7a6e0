package disk

import "allium/store/meta"

// setAside is quarantine of the files of one finding, of which nothing that was
// promised is lost unless why says otherwise. What has no place there stays.
func (b *blobs) setAside(why meta.Damage, files ...string) {
	if why.State == "" {
		why.State = meta.DamageMended
	}
	_ = b.aside.Take(why, files...) // noted and logged
}

// notice notes damage of a file that stays.
func (b *blobs) notice(file string, why meta.Damage) {
	why.State, why.File = meta.DamageMended, b.aside.Below(file)
	b.aside.Note(why)
}
