package store

import (
	"allium/store/cache"
	"allium/store/disk"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/upload"
)

// What callers of a Store name is declared by the parts of it.
type (
	// Pin keeps an object; see [meta.Pin].
	Pin = meta.Pin
	// GCCount counts objects and bytes; see [meta.Count].
	GCCount = meta.Count
	// Damage is one finding; see [meta.Damage].
	Damage = meta.Damage
	// DamageKind says what is damaged; see [meta.DamageKind].
	DamageKind = meta.DamageKind
	// DamageState says what became of it; see [meta.DamageState].
	DamageState = meta.DamageState
	// Descriptors share out open files; see [fsys.Descriptors].
	Descriptors = fsys.Descriptors
	// Usage says what takes space; see [meta.Usage].
	Usage = meta.Usage
	// UploadOptions say what an upload is held to; see [upload.Options].
	UploadOptions = upload.Options
	// Hot counts what the cache in RAM served; see [cache.Stats].
	Hot = cache.Stats
	// RebuildProgress says how far a rebuild has come; see [disk.RebuildProgress].
	RebuildProgress = disk.RebuildProgress
	// RebuildReport says what a rebuild found; see [disk.RebuildReport].
	RebuildReport = disk.RebuildReport
)

// The kinds of damage.
const (
	DamageLog    = meta.DamageLog
	DamageBody   = meta.DamageBody
	DamageFile   = meta.DamageFile
	DamageNote   = meta.DamageNote
	DamageIndex  = meta.DamageIndex
	DamageFormat = meta.DamageFormat
)

// The states of damage.
const (
	DamageOpen     = meta.DamageOpen
	DamageMended   = meta.DamageMended
	DamageRepaired = meta.DamageRepaired
	DamageAccepted = meta.DamageAccepted
)

// MaxLabel is the length of a pin's label in bytes.
const MaxLabel = meta.MaxLabel

// ErrDraining is returned once Run was told to stop.
var ErrDraining = meta.ErrDraining

// ErrLocked is in the chain of Run's error when another process has the
// directory open, ErrVersion when it was written by a newer version.
var (
	ErrLocked  = disk.ErrLocked
	ErrVersion = disk.ErrVersion
)

// CheckLabel returns bad_request for what cannot be the label of a pin.
func CheckLabel(label string) error { return meta.CheckLabel(label) }
