_hocket() {
    local command option options values kind typed_word
    _hocket_find "${(@)words[2,CURRENT-1]}"
    case "$PREFIX" in -*) kind= values="$options" ;; esac
    case "$kind" in
    list) compset -P '*,'; compadd -S '' -- ${=values} ;;
    setting) compadd -S '' -- ${=values} ;;
    *) compadd -- ${=values} ;;
    esac
    case "$kind" in task | file) _files ;; esac
}
if ! whence compdef > /dev/null; then autoload -U compinit && compinit; fi
compdef _hocket hocket
