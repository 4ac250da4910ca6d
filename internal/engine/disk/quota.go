package disk

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Project quotas, as ext4 and XFS keep them when mounted with prjquota. A folder gets a number that
// everything made in it inherits; the kernel counts the blocks of that number and refuses more than its
// limit with EDQUOT. The number comes from the folder's inode, so that no two folders of one file system
// share one while they exist.
const (
	sysQuotactlFD = 443 // the same on every architecture; since Linux 5.14
	projectQuota  = 2

	cmdGetInfo  = 0x800005<<8 | projectQuota
	cmdGetQuota = 0x800007<<8 | projectQuota
	cmdSetQuota = 0x800008<<8 | projectQuota

	validBlockLimits = 1
	limitUnit        = 1024

	ioctlGetAttributes = 0x801c581f
	ioctlSetAttributes = 0x401c5820
	inheritProject     = 0x200

	firstProject = 1 << 30 // operators number theirs from 1 on
)

// attributes is struct fsxattr.
type attributes struct {
	flags, extent, extents, project, cowExtent uint32
	_                                          [8]byte
}

// block is struct if_dqblk.
type block struct {
	hard, soft, used          uint64
	inodeHard, inodeSoft, ino uint64
	blockTime, inodeTime      uint64
	valid                     uint32
	_                         [4]byte
}

// info is struct if_dqinfo.
type info struct {
	blockGrace, inodeGrace uint64
	flags, valid           uint32
}

// quota is the number of one folder.
type quota struct {
	dir *os.File
	id  uint32
}

// holdFolder gives an empty or new folder its number and limit; nil: the file system keeps no such quotas.
func holdFolder(root string, limit int64) *quota {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	q := &quota{dir: os.NewFile(uintptr(fd), root)}
	var st unix.Stat_t
	var i info
	if unix.Fstat(fd, &st) != nil || q.control(cmdGetInfo, 0, unsafe.Pointer(&i)) != nil {
		_ = q.dir.Close()
		return nil
	}
	q.id = firstProject + uint32(st.Ino%(firstProject-1))
	b := block{hard: uint64(limit+limitUnit-1) / limitUnit, valid: validBlockLimits}
	if q.control(cmdSetQuota, q.id, unsafe.Pointer(&b)) != nil || q.mark() != nil {
		_ = q.dir.Close()
		return nil
	}
	return q
}

func (q *quota) control(cmd uintptr, id uint32, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(sysQuotactlFD, q.dir.Fd(), cmd, uintptr(id), uintptr(arg), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// mark writes the number into the folder.
func (q *quota) mark() error {
	var a attributes
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, q.dir.Fd(), ioctlGetAttributes, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return errno
	}
	a.project, a.flags = q.id, a.flags|inheritProject
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, q.dir.Fd(), ioctlSetAttributes, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return errno
	}
	return nil
}

// used is what the kernel counts for the folder.
func (q *quota) used() (int64, error) {
	var b block
	err := q.control(cmdGetQuota, q.id, unsafe.Pointer(&b))
	return int64(b.used), err
}

// forget takes the limit away; the folder is about to go.
func (q *quota) forget() {
	b := block{valid: validBlockLimits}
	_ = q.control(cmdSetQuota, q.id, unsafe.Pointer(&b))
	_ = q.dir.Close()
}
