package embedded

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func restoreHint() fault.Text {
	return fault.T(
		"Nothing was changed. Keep a copy of the folder, then restore the newest backup into a fresh one: fermi restore BACKUP --data NEW_DIR.",
		"未做任何改动。请先保留该目录的副本，再将最近的备份恢复到一个新目录：fermi restore 备份 --data 新目录。")
}

// damaged names the file that cannot be trusted.
func damaged(file string, cause error) *fault.Error {
	return fault.New(fault.Internal, "StoreDamaged", fault.T(
		"The store's file %s is damaged.", "存储文件 %s 已损坏。", file)).
		WithHint(restoreHint()).Because(cause)
}

func diskFull(dir string, cause error) *fault.Error {
	return fault.New(fault.Full, "DiskFull", fault.T(
		"The disk under %s is full; the store has stopped. Everything acknowledged so far is kept.",
		"%s 所在磁盘已满，存储已停止。此前已确认的写入均已保留。", dir)).
		WithHint(fault.T("Free some space and start again.", "请释放磁盘空间后重新启动。")).Because(cause)
}

// DiskFailing is a disk that answers with errors of its own: nothing that it holds can be trusted to be written.
func DiskFailing(dir string, cause error) *fault.Error {
	return fault.New(fault.Unavailable, "DiskFailing", fault.T(
		"The disk of %s reports errors (%v): it can't be written any more.", "%s 所在磁盘报告错误（%v）：无法继续写入。", dir, cause)).
		WithHint(fault.T("Look at the kernel's log (dmesg) and the disk; then start again, or restore the newest backup on another disk.",
			"请查看内核日志（dmesg）并检查磁盘；然后重新启动，或在另一块磁盘上恢复最近的备份。")).Because(cause)
}

// IsFailing says that an error is the disk's own.
func IsFailing(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ESHUTDOWN) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.Errno(117)) // EUCLEAN
}

func folderFault(dir string, err error) *fault.Error {
	switch {
	case IsFailing(err):
		return DiskFailing(dir, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Invalid, "FolderNotWritable", fault.T(
			"The folder %s can't be written by this user.", "当前用户无法写入目录 %s。", dir)).
			WithHint(fault.T("Choose another with --data, or change its owner.", "请用 --data 另选目录，或更改其属主。")).Because(err)
	}
	return fault.New(fault.Invalid, "FolderUnusable", fault.T(
		"The folder %s can't be used.", "无法使用目录 %s。", dir)).
		WithHint(fault.T("Choose another with --data.", "请用 --data 另选目录。")).Because(err)
}

// startFault is for an etcd that did not come up although its files looked right.
func startFault(dir string, err error) *fault.Error {
	if full := asFull(dir, err); full != nil {
		return full
	}
	return fault.New(fault.Internal, "StoreNotStarted", fault.T(
		"The store in %s did not start.", "%s 中的存储无法启动。", dir)).
		WithHint(restoreHint()).Because(err)
}

// runFault is for an etcd that died later.
func runFault(dir string, err error) *fault.Error {
	if full := asFull(dir, err); full != nil {
		return full
	}
	return fault.New(fault.Internal, "StoreDied", fault.T(
		"The store in %s has stopped. Everything acknowledged so far is kept.",
		"%s 中的存储已停止。此前已确认的写入均已保留。", dir)).
		WithHint(fault.T("Start again; if it happens again look at the log for the cause.", "请重新启动；如再次发生，请查看日志中的原因。")).Because(err)
}

func asFull(dir string, err error) *fault.Error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return diskFull(dir, err)
	}
	if IsFailing(err) {
		return DiskFailing(dir, err)
	}
	return nil
}
