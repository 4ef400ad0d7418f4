_hocket() {
    local line="${COMP_LINE:0:COMP_POINT}" command option options values kind typed_word word before=
    local -a typed
    read -ra typed <<< "$line"
    case "$line" in *[[:space:]]) typed+=("") ;; esac
    word="${typed[${#typed[@]}-1]}"
    _hocket_find "${typed[@]:1:${#typed[@]}-2}"
    case "$word" in -*) kind= values="$options" ;; esac
    case "$kind" in
    list) case "$word" in *,*) before="${word%,*}," ;; esac ;;
    setting) compopt -o nospace ;;
    esac
    COMPREPLY=($(compgen -P "$before" -W "$values" -- "${word#"$before"}"))
    case "$kind" in task | file) compopt -o filenames; COMPREPLY+=($(compgen -f -- "$word")) ;; esac
}
complete -F _hocket hocket
