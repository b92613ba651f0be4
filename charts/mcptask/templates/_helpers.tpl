{{/* Labels of every object. */}}
{{- define "mcptask.labels" -}}
app.kubernetes.io/name: mcptask
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels that select the Pods of a part: (list . "bridge") */}}
{{- define "mcptask.selector" -}}
app.kubernetes.io/name: mcptask
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The user name under which a part writes: (list . "bridge") */}}
{{- define "mcptask.user" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ (index . 0).Release.Name }}-{{ index . 1 }}
{{- end }}

{{- define "mcptask.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "mcptask.publicURL" -}}
{{ .Values.publicURL | trimSuffix "/" | default (printf "%s://%s-bridge.%s.svc.cluster.local" (empty .Values.bridge.tls.secretName | ternary "http" "https") .Release.Name .Release.Namespace) }}
{{- end }}

{{/* Labels and annotations of a part's Pods: (list . "bridge") */}}
{{- define "mcptask.podMetadata" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
labels:
  {{- with $values.podLabels }}
  {{- omit . "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml | nindent 2 }}
  {{- end }}
  {{- include "mcptask.selector" . | nindent 2 }}
annotations:
  kubectl.kubernetes.io/default-container: {{ index . 1 }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* What both parts' Pods share, and what the values say about the part's Pods: (list . "bridge") */}}
{{- define "mcptask.podSpec" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
serviceAccountName: {{ $root.Release.Name }}-{{ index . 1 }}
# Both parts speak to the API server.
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What both parts' containers share: (list . "bridge") */}}
{{- define "mcptask.container" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
name: {{ index . 1 }}
image: {{ include "mcptask.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command: ["/{{ index . 1 }}"]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  initialDelaySeconds: 10
  periodSeconds: 10
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  initialDelaySeconds: 2
  periodSeconds: 5
  failureThreshold: 2
terminationMessagePolicy: FallbackToLogsOnError
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The condition by which the groups of admissionPolicy.exemptGroups escape a policy. */}}
{{- define "mcptask.notExempt" -}}
{{- with .Values.admissionPolicy.exemptGroups -}}
- name: not-exempt
  expression: >-
    !has(request.userInfo.groups) || !request.userInfo.groups.exists(g, g in {{ toJson . }})
{{- end }}
{{- end }}

{{/* What both parts may reach beside DNS, if that is bounded at all: the values of networkPolicy. */}}
{{- define "mcptask.egress" -}}
{{- if not (kindIs "invalid" .egress) -}}
egress:
  - ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
  {{- with .egress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The names of the bridge's Service, and what the values add: what the Host header may be beside the public URL's host. */}}
{{- define "mcptask.allowedHosts" -}}
{{- $name := printf "%s-bridge" .Release.Name }}
{{- $inNamespace := printf "%s.%s" $name .Release.Namespace }}
{{- concat (list $name $inNamespace (print $inNamespace ".svc") (print $inNamespace ".svc.cluster.local")) .Values.bridge.allowedHosts | join "," }}
{{- end }}

{{/* The namespaces that are watched, as a JSON array; empty for all. */}}
{{- define "mcptask.namespaces" -}}
{{- if .Values.namespaces }}{{ toJson .Values.namespaces }}
{{- else if eq .Values.rbac.scope "namespace" }}{{ list .Release.Namespace | toJson }}
{{- else }}[]
{{- end }}
{{- end }}

{{/* Where both parts have their rights, as a JSON array of namespaces; [""] is the cluster. */}}
{{- define "mcptask.rbacNamespaces" -}}
{{- if eq .Values.rbac.scope "namespace" }}{{ include "mcptask.namespaces" . }}{{ else }}[""]{{ end }}
{{- end }}
