package store

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func notFound(what string) *fault.Error {
	return fault.New(fault.NotFound, "NotFound", fault.T("%s does not exist.", "%s 不存在。", what))
}

func stale(key api.Key, gone bool) *fault.Error {
	text := fault.T("%s was changed by someone else in the meantime.", "%s 已被他人修改。", key)
	if gone {
		text = fault.T("%s was deleted in the meantime.", "%s 已被删除。", key)
	}
	return fault.New(fault.Conflict, "Stale", text).
		WithHint(fault.T("Read it again and repeat the change.", "请重新读取后再次修改。"))
}

func nameTaken(key api.Key) *fault.Error {
	return fault.New(fault.Conflict, "NameTaken", fault.T("%s already exists.", "%s 已存在。", key)).
		WithFields(fault.Field{Path: "metadata.name", Message: fault.T("%q is taken; choose another name", "名称 %q 已被占用，请另选名称", key.Name)})
}

func notLeader() *fault.Error {
	return fault.New(fault.Conflict, "NotLeader", fault.T(
		"This server is no longer the leader; nothing was written.", "本服务器已不再是主节点，未写入任何内容。")).
		WithHint(fault.T("The new leader carries on; no action is needed.", "新的主节点会继续处理，无需操作。"))
}

func invalid(reason string, text fault.Text, cause error) *fault.Error {
	return fault.New(fault.Invalid, reason, text).Because(cause)
}

func storeFull(cause error) *fault.Error {
	return fault.New(fault.Full, "StoreFull", fault.T(
		"The store is full; nothing was written.", "存储已满，未写入任何内容。")).
		WithHint(fault.T("Delete what is finished or raise the store's quota.", "请删除已结束的对象，或提高存储配额。")).Because(cause)
}

func diskLow(cause error) *fault.Error {
	return fault.New(fault.Full, "DiskFull", fault.T(
		"The store's disk is almost full, of bytes or of file names; nothing was written.", "存储所在磁盘的空间或文件名即将用尽，未写入任何内容。")).
		WithHint(fault.T("Free some space on the disk of the data folder, or stop and delete tasks, which works all the same; writing resumes by itself.", "请释放数据目录所在磁盘的空间，或停止、删除任务（仍可使用）；之后写入会自动恢复。")).Because(cause)
}

func unavailable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, "StoreUnavailable", fault.T(
		"The store does not answer; it is not known whether the change was made.", "存储无响应，无法确定更改是否已生效。")).
		WithHint(fault.T("Look again before repeating it; check that etcd runs and has a quorum.", "重试前请先查看结果，并检查 etcd 是否正常运行且有法定多数。")).Because(cause)
}

func unreadable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, "StoreUnavailable", fault.T(
		"The store does not answer.", "存储无响应。")).
		WithHint(fault.T("Try again; check that etcd runs and has a quorum.", "请稍后重试，并检查 etcd 是否正常运行且有法定多数。")).Because(cause)
}

// etcdFault turns an error of the client into one of ours. wrote says that the call may have
// changed something.
func etcdFault(ctx context.Context, err error, wrote bool) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrNoSpace):
		return storeFull(err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return invalid("TransactionTooLarge", fault.T(
			"The change is too large for one transaction.", "单次事务的更改过大。"), err)
	case !wrote && errors.Is(ctx.Err(), context.Canceled):
		return fault.From(ctx.Err())
	case isAway(err):
		if wrote {
			return unavailable(err)
		}
		return unreadable(err)
	}
	return fault.New(fault.Internal, "StoreFailed", fault.T(
		"The store refused the call.", "存储拒绝了该请求。")).Because(err)
}

// isAway says that etcd could not be reached or had no quorum in time.
func isAway(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, clientv3.ErrNoAvailableEndpoints) {
		return true
	}
	code := status.Code(err)
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}
