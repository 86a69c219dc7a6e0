package doctor

import "golang.org/x/sys/unix"

// kinds are the names of file systems by their magic numbers. Unknown ones have none.
var kinds = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb",
	unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse",
	unix.MSDOS_SUPER_MAGIC: "vfat", 0x2011bab0: "exfat", unix.CEPH_SUPER_MAGIC: "ceph", unix.AFS_FS_MAGIC: "afs",
}

func statfs(dir string) (FileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return FileSystem{}, err
	}
	block := int64(st.Frsize) //nolint:unconvert // 32 bits on some machines
	return FileSystem{
		Kind:  kinds[int64(uint32(st.Type))], //nolint:gosec // a magic number has 32 bits
		Bytes: int64(st.Blocks) * block, FreeBytes: int64(st.Bavail) * block,
		Inodes: int64(st.Files), FreeInodes: int64(st.Ffree),
	}, nil
}
