package imagejob

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// lastLine is the last line that says something: buildah says what went wrong at its end.
func lastLine(words string) string {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line != "" && !strings.HasPrefix(line, "exit status") && !strings.HasPrefix(line, "level=") {
			return short(strings.TrimPrefix(line, "Error: "))
		}
	}
	return ""
}

func says(words string, any ...string) bool {
	words = strings.ToLower(words)
	for _, a := range any {
		if strings.Contains(words, a) {
			return true
		}
	}
	return false
}

// The words by which registries, and what asks them, tell what is wrong.
var (
	wordsMissing = []string{"manifest unknown", "name unknown", "not found: manifest", "repository name not known", "status 404"}
	wordsDenied  = []string{"authentication required", "unauthorized", "access denied", "access to the resource is denied", "denied:", "status 403", "status 401"}
	wordsAway    = []string{"no such host", "connection refused", "i/o timeout", "no route to host", "network is unreachable", "tls handshake", "connection reset", "deadline exceeded"}
	wordsFull    = []string{"no space left on device"}
)

// buildFault says why a build failed.
func buildFault(words string, cause error) error {
	line := lastLine(words)
	pulling := says(line, "initializing source", "reading manifest", "copying system image", "pinging container registry", "error creating build container", "creating build container")
	switch {
	case says(line, wordsFull...):
		return fault.New(fault.Full, "DiskFull", fault.T("The disk of the node is full: %s", "节点磁盘已满：%s", line)).Because(cause)
	case says(line, "rejected by policy"):
		return fault.New(fault.Invalid, "ImageNotAllowed", fault.T("The operator does not allow an image that the Dockerfile begins from: %s", "运维不允许使用 Dockerfile 引用的镜像：%s", line)).Because(cause)
	case says(line, "no stage or image found with that name"):
		return fault.New(fault.Invalid, "BadDockerfile", fault.T(
			"What --from names is no stage of the Dockerfile, no image at its registry, or one that the operator does not allow: %s", "--from 既不是 Dockerfile 中的阶段，也不是仓库中存在且被允许的镜像：%s", line)).Because(cause)
	case pulling && says(line, wordsMissing...):
		return fault.New(fault.NotFound, "NoBaseImage", fault.T("A base image of the Dockerfile is not at its registry: %s", "镜像仓库中没有 Dockerfile 所需的基础镜像：%s", line)).
			WithHint(fault.T("Correct the name or tag after FROM.", "请修正 FROM 后的名称或标签。")).Because(cause)
	case pulling && says(line, wordsDenied...):
		return fault.New(fault.Forbidden, "BaseImageDenied", fault.T("The registry does not let this project read a base image of the Dockerfile: %s", "镜像仓库不允许该项目读取 Dockerfile 的基础镜像：%s", line)).
			WithHint(fault.T("Store an account as a secret of type registry, and name it in spec.credentials.", "请将帐号存为 registry 类型的密钥，并在 spec.credentials 中引用。")).Because(cause)
	case pulling && says(line, wordsAway...):
		return fault.New(fault.Unavailable, "RegistryUnreachable", fault.T("The registry of a base image is out of reach: %s", "无法访问基础镜像的仓库：%s", line)).Because(cause)
	case says(line, "unknown instruction", "parse error", "error parsing", "unable to parse"):
		return fault.New(fault.Invalid, "BadDockerfile", fault.T("The Dockerfile can't be read: %s", "无法解析 Dockerfile：%s", line)).Because(cause)
	case says(line, "while running runtime", "building at step"):
		return fault.New(fault.Invalid, "BuildStepFailed", fault.T("A step of the Dockerfile failed: %s", "Dockerfile 的某一步失败：%s", line)).
			WithHint(fault.T("Its output stands above that in the log.", "其输出见日志中的前文。")).Because(cause)
	case line != "":
		return fault.New(fault.Invalid, "BuildFailed", fault.T("The image could not be built: %s", "镜像构建失败：%s", line)).Because(cause)
	}
	return fault.New(fault.Invalid, "BuildFailed", fault.T("The image could not be built: %v", "镜像构建失败：%v", cause)).Because(cause)
}

// pushFault says why an image could not be pushed.
func pushFault(to name.Reference, words string, cause error) error {
	line := lastLine(words)
	switch {
	case says(line, wordsDenied...):
		return fault.New(fault.Forbidden, "PushDenied", fault.T("The registry does not let this project push %s.", "镜像仓库不允许该项目推送 %s。", to)).
			WithHint(fault.T("Name a secret of type registry in spec.credentials whose account may write there.", "请在 spec.credentials 中引用具有写权限的 registry 类型密钥。")).Because(cause)
	case says(line, wordsAway...):
		return fault.New(fault.Unavailable, "RegistryUnreachable", fault.T("The registry of %s is out of reach: %s", "无法访问 %s 的镜像仓库：%s", to, line)).Because(cause)
	}
	return fault.New(fault.Invalid, "PushRefused", fault.T("The registry did not take %s: %s", "镜像仓库未接受 %s：%s", to, line)).Because(cause)
}
