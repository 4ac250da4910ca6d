{{- define "fermi.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "fermi.zone" -}}{{ .Values.zone.name | default .Release.Name }}{{- end }}
{{- define "fermi.ha" -}}{{ if gt (int .Values.server.replicas) 1 }}yes{{ end }}{{- end }}
{{- define "fermi.labels" -}}
app.kubernetes.io/name: fermi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "fermi.select" -}}
app.kubernetes.io/name: fermi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "fermi.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}
