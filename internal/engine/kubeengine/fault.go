package kubeengine

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Explain puts what an API server, or the way to it, answered into words. verb and resource are what was tried; both are in the words where
// a permission is missing.
func (c *Cluster) Explain(err error, verb, resource string) error {
	var own *fault.Error
	var api apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case !errors.As(err, &api):
		return fault.New(fault.Unavailable, "ClusterUnreachable", fault.T(
			"The API server of cluster %s can't be reached: %s", "无法访问集群 %s 的 API server：%s", c.Zone, Short(err.Error()))).
			WithHint(fault.T("Fermi goes on asking; pods that run are not touched.", "Fermi 会持续重试；正在运行的 Pod 不受影响。")).Because(err)
	}
	said := Short(api.Status().Message)
	switch {
	case apierrors.IsUnauthorized(err):
		return fault.New(fault.Unavailable, "ClusterCredentials", fault.T(
			"Cluster %s refuses our credentials: they have expired or were revoked.", "集群 %s 拒绝了 Fermi 的凭据：已过期或被吊销。", c.Zone)).
			WithHint(fault.T("Renew the credentials in %s; the file is read again by itself.", "请更新 %s 中的凭据，文件会被自动重新读取。", c.Kubeconfig)).Because(err)
	case apierrors.IsForbidden(err) && strings.Contains(said, "exceeded quota"):
		return fault.New(fault.Unavailable, "NamespaceQuota", fault.T(
			"Namespace %s of cluster %s is over its quota: %s", "集群 %[2]s 的命名空间 %[1]s 超出配额：%[3]s", c.Namespace, c.Zone, said)).
			WithHint(fault.T("Raise the ResourceQuota, or wait until other pods of the namespace have ended.", "请调大 ResourceQuota，或等待该命名空间的其他 Pod 结束。")).Because(err)
	case apierrors.IsForbidden(err) && strings.Contains(said, "cannot "+verb):
		return fault.New(fault.Unavailable, "ClusterPermission", fault.T(
			"Fermi may not %s %s in cluster %s: %s", "Fermi 在集群 %[3]s 中没有对 %[2]s 执行 %[1]s 的权限：%[4]s", verb, resource, c.Zone, said)).
			WithHint(fault.T("Add to its role the rule: verbs [%s], resources [%s].", "请为其角色增加规则：verbs [%s]，resources [%s]。", verb, resource)).Because(err)
	case apierrors.IsForbidden(err):
		return fault.New(fault.Unavailable, "ClusterPolicy", fault.T(
			"A rule of cluster %s does not admit it: %s", "集群 %s 的准入规则不允许：%s", c.Zone, said)).Because(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return fault.New(fault.Invalid, "ClusterRefused", fault.T(
			"Cluster %s does not take it: %s", "集群 %s 不接受：%s", c.Zone, said)).Because(err)
	case apierrors.IsNotFound(err):
		return fault.New(fault.Unavailable, "ClusterLacks", fault.T(
			"Cluster %s lacks what is needed: %s", "集群 %s 缺少所需资源：%s", c.Zone, said)).
			WithHint(fault.T("The namespace is %s; make it, or name another with --cluster.", "命名空间为 %s；请创建它，或用 --cluster 指定其他命名空间。", c.Namespace)).Because(err)
	case apierrors.IsTooManyRequests(err):
		return fault.New(fault.Unavailable, "ClusterBusy", fault.T("The API server of cluster %s is busy: %s", "集群 %s 的 API server 繁忙：%s", c.Zone, said)).Because(err)
	}
	return fault.New(fault.Unavailable, "ClusterTrouble", fault.T("Cluster %s answered: %s", "集群 %s 返回：%s", c.Zone, said)).Because(err)
}

// IsConflict says that the object is not any more what it was. What was found out about one, and is put into words, is none.
func IsConflict(err error) bool {
	var own *fault.Error
	return !errors.As(err, &own) && apierrors.IsConflict(err)
}

// IsGone says that there is no such object.
func IsGone(err error) bool { return apierrors.IsNotFound(err) }

// IsTaken says that there is one.
func IsTaken(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonAlreadyExists
}

// maxSaid bounds words of others.
const maxSaid = 400

// Short is what others said, in one line of bounded length.
func Short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxSaid {
		s = strings.ToValidUTF8(s[:maxSaid], "") + "…"
	}
	return s
}
