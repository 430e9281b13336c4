{{- /* Pods that keep their volumes have names. */ -}}
{{- define "photofinish.kind" -}}
{{ if .Values.spill.persistent }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}
