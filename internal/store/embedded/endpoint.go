package embedded

import (
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// EndpointOf is where other processes of the same user reach the etcd of a data folder, running or not.
func EndpointOf(data string) (string, error) {
	abs, err := filepath.Abs(filepath.Join(data, etcdFolder))
	if err != nil {
		return "", folderFault(data, err)
	}
	path := filepath.Join(abs, socketName)
	if len(path) > maxSocketPath {
		return "", fault.New(fault.Invalid, "PathTooLong", fault.T("The data folder's path is too long for a socket that others dial: %s", "数据目录路径过长，其他进程无法连接：%s", data)).
			WithHint(fault.T("Use a shorter --data path.", "请使用更短的 --data 路径。"))
	}
	return "unix://" + path, nil
}
