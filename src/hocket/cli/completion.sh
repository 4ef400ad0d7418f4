_hocket_find() {
    command= option= options= values= kind=
    for typed_word in "$@"; do
        case "$command" in
        '') case "$typed_word" in -*) ;; *) command="$typed_word" ;; esac ;;
        *)
            case "$typed_word" in
            -*) option="$typed_word"; case " %(flags)s " in *" $typed_word "*) option= ;; esac ;;
            *) case " %(several)s " in *" $option "*) ;; *) option= ;; esac ;;
            esac ;;
        esac
    done
    case "$command" in
%(options)s
    esac
    case "$command $option" in
%(values)s
    esac
}
