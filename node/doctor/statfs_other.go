//go:build !linux

package doctor

func statfs(string) (FileSystem, error) { return FileSystem{}, errUnknown }
